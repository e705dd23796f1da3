"""Host binaries: markers, fat binaries and what they link to."""

from __future__ import annotations

import io
import shutil
import struct
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import elfs
from elfs import HIP, HOST, Elf, Section, bundle, code_object, compressed, dynamic, note, pe
from kpacktools.hostfile import FatSection, HostBinary, Marker, build_id_of, expand, loader_targets, read_host
from kpacktools.trees import Entry
from kpacktools.trees.directory import DirectoryTree

KERNEL = "math-libs/rocFFT/stage/lib/librocfft.so.0.1"
PATHS = ("../.kpack/fft_lib_@GFXARCH@.kpack", "/opt/rocm/.kpack/all.kpack")
MARKER = msgspec.msgpack.encode({"kpack_search_paths": PATHS, "kernel_name": KERNEL})
FAT = bundle({HOST: b"", f"{HIP}gfx90a:xnack-": b"a" * 90, f"{HIP}gfx942": b"b" * 90})
NEEDED, SONAME, RPATH, RUNPATH = 1, 14, 15, 29


class MemoryTree:
    """A tree of one file, ``file``."""

    label = "memory"
    folders: Mapping[str, Sequence[Entry]] = {}

    def __init__(self, data: bytes) -> None:
        self.data = data

    def open(self, path: str) -> BinaryIO:
        if path != "file":
            raise FileNotFoundError(path)
        return io.BytesIO(self.data)

    def local_path(self, path: str) -> None:
        return None


def host(data: bytes) -> HostBinary:
    binary = read_host(MemoryTree(data), "file")
    assert binary is not None
    return binary


def wrappers(magic: bytes, *indexes: int) -> bytes:
    return b"".join(struct.pack("<4sI8xQ", magic, 1, index) for index in indexes)


def test_a_marker_names_the_kernel_and_its_archives() -> None:
    sections = [Section(".rocm_kpack_ref", MARKER), Section(".hipFatBinSegment", wrappers(b"HIPK", 1, 0, 2))]
    binary = host(Elf(sections).build())
    assert binary.format == "elf"
    assert binary.markers == (Marker(KERNEL, PATHS),)
    assert binary.code_objects == (0, 1, 2)
    assert binary.problems == ()


def test_a_marker_may_be_padded_and_hold_more_than_the_loader_reads() -> None:
    document = {"version": 2, "kernel_name": "k", "kpack_search_paths": [7, "a.kpack", None]}
    data = msgspec.msgpack.encode(document) + bytes(13)
    assert host(Elf([Section(".rocm_kpack_ref", data)]).build()).markers == (Marker("k", ("a.kpack",)),)


@pytest.mark.parametrize(
    "data",
    [
        b"no marker",
        msgspec.msgpack.encode({"kernel_name": "k"}),
        msgspec.msgpack.encode({"kernel_name": "k", "kpack_search_paths": [1]}),
        b"\x82" + b"\x91" * 5000,
        b"x" * 65537,
    ],
    ids=["text", "no paths", "no path", "too deep", "too large"],
)
def test_a_damaged_marker_is_told(data: bytes) -> None:
    binary = host(Elf([Section(".rocm_kpack_ref", data)]).build())
    assert binary.markers == ()
    (problem,) = binary.problems
    assert problem.startswith(".rocm_kpack_ref: it ")


def test_a_fat_binary_lists_the_targets_it_carries() -> None:
    other = bundle({f"{HIP}gfx942": b"c", f"{HIP}gfx1100": b"d"})
    data = compressed(FAT).ljust(4096, b"\0") + compressed(other, version=3)
    sections = [Section(".hip_fatbin", data), Section(".hipFatBinSegment", wrappers(b"FPIH", 0, 0))]
    binary = host(Elf(sections).build())
    assert binary.fat == (FatSection(len(data), 2, ("gfx90a:xnack-", "gfx942", "gfx1100"), compressed=True),)
    assert (binary.code_objects, binary.problems) == ((), ())


def test_targets_before_damage_are_listed() -> None:
    binary = host(Elf([Section(".hip_fatbin", FAT + b"junk")]).build())
    assert binary.fat == (FatSection(len(FAT) + 4, 1, ("gfx90a:xnack-", "gfx942"), compressed=False),)
    (problem,) = binary.problems
    assert problem.startswith(f".hip_fatbin: at byte {len(FAT)} of {len(FAT) + 4} there is no bundle")


def test_C10_a_fat_binary_without_bits_is_no_payload() -> None:
    names = (".hip_fatbin", ".rocm_kpack_ref", ".hipFatBinSegment", ".dynamic")
    without_bits = [Section(name, b"", elfs.NOBITS, size=5 << 30) for name in names]
    debug = Elf([*without_bits, Section(".note", note(b"GNU\0", 3, b"\xab\xcd"), elfs.NOTE)]).build()
    assert host(debug) == HostBinary("elf", build_id="abcd")


def test_zeros_that_splitting_leaves_are_no_payload() -> None:
    assert host(Elf([Section(".hip_fatbin", bytes(9000))]).build()) == HostBinary("elf")


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("bits", [32, 64])
def test_links_and_build_id_are_read_of_every_kind_of_elf(bits: int, order: str) -> None:
    entries = [
        (NEEDED, "libamdhip64.so.7"),
        (SONAME, "libdemo.so.1"),
        (NEEDED, "libc.so.6"),
        (RUNPATH, "$ORIGIN:/x"),
    ]
    notes = note(b"GNU\0", 5, b"property", order) + note(b"GNU\0", 3, b"\x01\x02\x03", order)
    sections = [*dynamic(entries, bits, order), Section(".note", notes, elfs.NOTE)]
    binary = host(Elf(sections, bits=bits, order=order).build())
    assert binary.needed == ("libamdhip64.so.7", "libc.so.6")
    assert (binary.soname, binary.runpath, binary.build_id) == ("libdemo.so.1", ("$ORIGIN", "/x"), "010203")
    assert build_id_of(MemoryTree(Elf(sections, bits=bits, order=order).build()), "file") == "010203"


@pytest.mark.parametrize(
    ("entries", "runpath"),
    [
        ([(RPATH, "/old")], ("/old",)),
        ([(RPATH, "/old"), (RUNPATH, "/new")], ("/new",)),
        ([(RUNPATH, ":".join(["/long"] * 1500))], ("/long",) * 1500),
        ([], ()),
    ],
    ids=["RPATH", "both", "long", "none"],
)
def test_run_paths_come_before_older_ones(entries: list[tuple[int, str]], runpath: tuple[str, ...]) -> None:
    assert host(Elf(dynamic(entries)).build()).runpath == runpath


def test_more_sections_than_the_header_can_count_are_read() -> None:
    built = Elf([Section(".rocm_kpack_ref", MARKER)], header={"shnum": 0, "shstrndx": 0xFFFF}).build()
    first = struct.pack("<IIQQQQII", 0, 0, 0, 0, 0, 3, 2, 0)
    data = built[: -3 * 64] + first.ljust(64, b"\0") + built[-2 * 64 :]
    assert host(data).markers == (Marker(KERNEL, PATHS),)


def test_stripped_section_headers_leave_nothing_to_tell() -> None:
    stripped = Elf(
        [Section(".rocm_kpack_ref", MARKER)], header={"shoff": 0, "shnum": 0, "shstrndx": 0}
    ).build()
    assert host(stripped) == HostBinary("elf")


@pytest.mark.parametrize("bits", [32, 64])
def test_a_pe_image_is_read_like_elf(bits: int) -> None:
    sections = {".kpackrf": MARKER, ".hipFatB": wrappers(b"HIPK", 0), ".hip_fat": compressed(FAT)}
    binary = host(pe(sections, ["amdhip64_7.dll", "KERNEL32.dll"], bits))
    assert binary == HostBinary(
        "pe",
        (Marker(KERNEL, PATHS),),
        code_objects=(0,),
        fat=(FatSection(len(compressed(FAT)), 1, ("gfx90a:xnack-", "gfx942"), compressed=True),),
        needed=("amdhip64_7.dll", "KERNEL32.dll"),
    )


@pytest.mark.parametrize(
    "data",
    [b"", b"text", b"MZ", b"MZ".ljust(80, b"\0"), b"\x7fELF", b"\x7fELF\x03\x01".ljust(64, b"\0"),
     code_object().build()],
    ids=["empty", "text", "MZ only", "DOS", "cut ELF", "unknown word size", "code object"],
)  # fmt: skip
def test_other_files_are_none(data: bytes) -> None:
    assert read_host(MemoryTree(data), "file") is None


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (Elf(header={"shoff": 1 << 40}).build(), "section headers: the section header table should be bytes"),
        (Elf(header={"shentsize": 0}).build(), "section headers: the section headers have 0 bytes each"),
        (Elf(header={"shstrndx": 9}).build(), "section headers: the section names are in section 9 of 2"),
        (
            Elf([Section(".rocm_kpack_ref", MARKER, size=999)]).build(),
            ".rocm_kpack_ref: it should be bytes 64..1063",
        ),
        (Elf([Section(".hip_fatbin", FAT, size=1 << 40)]).build(), ".hip_fatbin: it should be bytes"),
        (Elf([Section(".note", b"", elfs.NOTE, size=1 << 40)]).build(), "notes: a section of notes has"),
        (
            Elf(dynamic([(NEEDED, "libc.so.6")])[1:]).build(),
            "dynamic section: a string should be at byte 1 of 0",
        ),
        (pe({}, ["a.dll"])[:300], "section headers: the section header table should be bytes"),
        (
            pe({}, ["a.dll"]).replace(b"\x28\x22\0\0", b"\xff\xff\xff\0"),
            "import table: address 0xffffff is in no",
        ),
    ],
)
def test_damage_is_told(data: bytes, problem: str) -> None:
    problems = host(data).problems
    assert any(text.startswith(problem) for text in problems), problems


def test_a_fat_binary_of_gigabytes_is_not_read(tmp_path: Path) -> None:
    header = b"CCOB" + struct.pack("<HHQQQ", 3, 1, (6 << 30) - 4096, 9 << 30, 0)
    data = header + compressed(FAT)[24:]
    built = Elf([Section(".hip_fatbin", data, size=6 << 30)], header={"shoff": 7 << 30}).build()
    with (tmp_path / "file").open("wb") as sparse:
        sparse.write(built)
        sparse.seek(7 << 30)
        sparse.write(built[-3 * 64 :])
    binary = read_host(DirectoryTree(str(tmp_path), str(tmp_path), {}), "file")
    assert binary is not None
    assert binary.fat == (FatSection(6 << 30, 1, ("gfx90a:xnack-", "gfx942"), compressed=True),)


SAMPLES = [
    Elf(
        [Section(".rocm_kpack_ref", MARKER), Section(".hip_fatbin", FAT), *dynamic([(NEEDED, "libc.so.6")])]
    ).build(),
    pe({".kpackrf": MARKER, ".hip_fat": compressed(FAT)}, ["a.dll"]),
]


@settings(deadline=None)
@given(st.sampled_from(SAMPLES), st.integers(0, 1400), st.binary(max_size=9), st.integers(64, 4000))
def test_any_change_ends_in_a_value(sample: bytes, position: int, junk: bytes, end: int) -> None:
    tree = MemoryTree((sample[:position] + junk + sample[position + len(junk) :])[:end])
    read_host(tree, "file")
    build_id_of(tree, "file")


def test_no_build_id_is_found_where_there_is_none() -> None:
    for data in (b"text", Elf().build(), Elf(header={"shoff": 1 << 40}).build()):
        assert build_id_of(MemoryTree(data), "file") is None
    assert build_id_of(MemoryTree(b""), "missing") is None


def test_the_loader_drops_features_one_by_one() -> None:
    assert loader_targets("gfx942:sramecc+:xnack+") == (
        "gfx942:sramecc+:xnack+",
        "gfx942:sramecc+",
        "gfx942:xnack+",
        "gfx942",
    )
    assert loader_targets("gfx1201") == ("gfx1201",)
    with pytest.raises(ValueError, match="not a target ID"):
        loader_targets("../gfx942")


def test_search_paths_are_expanded_where_they_have_a_placeholder() -> None:
    assert expand(PATHS[0], "gfx942:xnack-") == (
        "../.kpack/fft_lib_gfx942:xnack-.kpack",
        "../.kpack/fft_lib_gfx942.kpack",
    )
    assert expand(PATHS[1], "gfx942:xnack-") == (PATHS[1],)
    assert expand("@GFXARCH@/@GFXARCH@", "gfx942") == ("gfx942/@GFXARCH@",)


def test_a_dll_that_lld_linked_is_read(tmp_path: Path) -> None:
    clang, linker = shutil.which("clang-22"), shutil.which("lld-link-22")
    if clang is None or linker is None:
        pytest.skip("there is no clang-22 with lld-link-22 here")
    values = ", ".join(map(str, MARKER))
    sources = {
        "first": "__declspec(dllexport) int first(void) { return 1; }",
        "second": "__declspec(dllimport) int first(void); __declspec(dllexport) int second(void) { return first(); }"
        f'__attribute__((used, section(".kpackrf"))) const unsigned char marker[] = {{{values}}};',
    }
    for name, text in sources.items():
        (tmp_path / f"{name}.c").write_text(text)
        compile_ = [clang, "--target=x86_64-pc-windows-msvc", "-c", f"{name}.c", "-o", f"{name}.obj"]
        subprocess.run(compile_, cwd=tmp_path, check=True)
        link = [linker, "/dll", "/noentry", f"/out:{name}.dll", f"{name}.obj"]
        subprocess.run(
            link + ["first.lib"] * (name == "second"), cwd=tmp_path, check=True, capture_output=True
        )
    binary = host((tmp_path / "second.dll").read_bytes())
    assert (binary.markers, binary.needed, binary.problems) == ((Marker(KERNEL, PATHS),), ("first.dll",), ())
