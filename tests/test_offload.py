"""Offload bundles, plain and compressed."""

from __future__ import annotations

import contextlib
import random
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfs import HIP, HOST, bundle, compressed
from kpacktools import offload
from kpacktools.offload import Bundle, BundleEntry, BundleError, bundles, entries

CODES = {HOST: b"", f"{HIP}gfx90a:sramecc+:xnack-": b"a" * 100, "hip-amdgcn-amd-amdhsa--gfx906": b"b" * 50}
PLAIN = bundle(CODES)
FORMS = {
    "plain": PLAIN,
    "zlib": compressed(PLAIN, method=0),
    "zstd": compressed(PLAIN, method=1),
    "version 1": compressed(PLAIN, version=1),
    "version 3": compressed(PLAIN, version=3),
}
each_form = pytest.mark.parametrize("data", FORMS.values(), ids=FORMS)


@each_form
def test_entries_are_listed_in_order(data: bytes) -> None:
    found = list(entries(data))
    assert [(entry.kind, entry.target, entry.size) for entry in found] == [
        ("host", None, 0),
        ("hipv4", "gfx90a:sramecc+:xnack-", 100),
        ("hip", "gfx906", 50),
    ]
    assert [PLAIN[entry.offset : entry.offset + entry.size] for entry in found] == list(CODES.values())


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("hip-amdgcn-amd-amdhsa--gfx9-4-generic", "gfx9-4-generic"),
        ("hip-amdgcn-amd-amdhsa-gfx906", "gfx906"),
        ("hip-amdgcn-amd-amdhsa-gfx9-4-generic", "gfx9-4-generic"),
        ("hipv4-amdgcn-amd-amdhsa-unknown-gfx942:xnack-", "gfx942:xnack-"),
        ("openmp-amdgcn-amd-amdhsa--gfx90a", "gfx90a"),
        ("hip-spirv64-amd-amdhsa--amdgcnspirv", "amdgcnspirv"),
        ("host-x86_64-unknown-linux-gnu-", None),
        (
            "host-x86_64-unknown-linux--host-x86_64-unknown-linux--",
            None,
        ),  # as clang-offload-bundler 19 has it
        ("nonsense", None),
    ],
)
def test_the_target_is_what_follows_the_triple(name: str, target: str | None) -> None:
    assert BundleEntry(name, 0, 0).target == target


def test_bundles_follow_one_another_at_aligned_offsets() -> None:
    first = FORMS["zstd"].ljust(4096, b"\0")
    second = PLAIN.ljust(4096, b"\0")
    found = list(bundles(bytes(64) + first + second + FORMS["version 3"] + bytes(100)))
    assert [(item.offset, item.compression, len(item.entries)) for item in found] == [
        (64, "zstd", 3),
        (64 + 4096, None, 3),
        (64 + 8192, "zstd", 3),
    ]


@pytest.mark.parametrize("data", [b"", bytes(5000)], ids=["empty", "zeros"])
def test_nothing_but_padding_holds_no_bundle(data: bytes) -> None:
    assert list(bundles(data)) == []


def test_a_bundle_of_no_entries_is_one() -> None:
    assert list(bundles(bundle({}))) == [Bundle(0, 32, None, ())]


class Counted:
    """Bytes that count how many of them are read."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.read = 0

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, part: slice, /) -> bytes:
        chunk = self.data[part]
        self.read += len(chunk)
        return chunk


@pytest.mark.parametrize("method", [0, 1], ids=["zlib", "zstd"])
def test_code_is_neither_read_nor_decompressed(method: int) -> None:
    noise = random.Random(0).randbytes(2 << 20)
    data = Counted(compressed(bundle({f"{HIP}gfx942": noise}), version=3, method=method))
    assert [entry.target for entry in entries(data)] == ["gfx942"]
    assert data.read < len(data) / 8


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x7fELF and more", "at byte 0 of 13 there is no bundle"),
        (PLAIN + b"x", "there is no bundle"),
        (PLAIN[:60], "goes on beyond byte 60"),
        (PLAIN[:-1], "entry 2 should be bytes"),
        (PLAIN[:24] + b"\xff" * 8 + PLAIN[32:], "should be bytes|goes on beyond"),
        (PLAIN[:48] + b"\xff" * 8 + PLAIN[56:], "goes on beyond"),
        (b"CCOB\2\0", "ends inside its header"),
        (b"CCOB" + struct.pack("<HHIIQ", 4, 1, 24, 0, 0), "version 4"),
        (b"CCOB" + struct.pack("<HHIIQ", 2, 2, 24, 0, 0), "method 2"),
        (b"CCOB" + struct.pack("<HHIIQ", 2, 1, 0, 0, 0), "its size is given as 0, where there are 24"),
        (b"CCOB" + struct.pack("<HHIIQ", 2, 1, 25, 0, 0), "its size is given as 25"),
        (b"CCOB" + struct.pack("<HHIIQ4s", 2, 0, 28, 0, 0, b"junk"), "zlib stream is damaged"),
        (b"CCOB" + struct.pack("<HHIIQ4s", 2, 1, 28, 0, 0, b"junk"), "zstd frame is damaged"),
        (compressed(b"something else"), "decompressed, it does not begin"),
        (compressed(PLAIN[:60]), "goes on beyond byte 60"),
    ],
)
def test_what_is_no_bundle_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(BundleError, match=message):
        list(bundles(data))


def test_bundles_before_damage_are_given() -> None:
    found = bundles(PLAIN.ljust(4096, b"\0") + FORMS["zstd"][:40])
    assert len(next(found).entries) == 3
    with pytest.raises(BundleError, match="the bundle at byte 4096"):
        next(found)


def test_bundles_without_end_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offload, "_MAX_BUNDLES", 10)
    assert len(list(bundles(PLAIN * 10))) == 10
    with pytest.raises(BundleError, match="more than 10 bundles"):
        list(bundles(PLAIN * 11))


@given(st.sampled_from(sorted(FORMS)), st.integers(0, 400), st.binary(max_size=40))
def test_any_change_ends_in_entries_or_a_refusal(form: str, position: int, junk: bytes) -> None:
    data = FORMS[form][:position] + junk + FORMS[form][position + len(junk) :]
    with contextlib.suppress(BundleError):
        list(entries(data))


@pytest.mark.parametrize("options", [[], ["-compress"]], ids=["plain", "compressed"])
@pytest.mark.parametrize("major", [16, 19, 22])
def test_bundles_of_clang_are_read(major: int, options: list[str], tmp_path: Path) -> None:
    bundler = shutil.which(f"clang-offload-bundler-{major}")
    if bundler is None:
        pytest.skip(f"there is no clang-offload-bundler-{major}")
    if (
        options
        and options[0] not in subprocess.run([bundler, "--help"], capture_output=True, text=True).stdout
    ):
        pytest.skip(f"clang-offload-bundler-{major} does not compress")
    code = tmp_path / "code"
    code.write_bytes(b"code" * 1000)
    targets = f"-targets=host-x86_64-unknown-linux-gnu-,{HIP}gfx90a:sramecc+:xnack-,{HIP}gfx942"
    inputs = ["-input=/dev/null", f"-input={code}", f"-input={code}"]
    out = tmp_path / "out.hipfb"
    subprocess.run([bundler, "-type=o", targets, *inputs, f"-output={out}", *options], check=True)
    (found,) = bundles(out.read_bytes())
    assert [(entry.kind, entry.target, entry.size) for entry in found.entries] == [
        ("host", None, 0),
        ("hipv4", "gfx90a:sramecc+:xnack-", 4000),
        ("hipv4", "gfx942", 4000),
    ]
    assert (found.size, bool(found.compression)) == (out.stat().st_size, bool(options))
