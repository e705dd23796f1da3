"""Wheels as trees: what is in them, and what must not be believed of them."""

from __future__ import annotations

import contextlib
import io
import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kpacktools.errors import CallError
from kpacktools.outputs.zipformat import DEFLATED, STORED, Packed, ZipFormat, ZipLimits
from kpacktools.trees import wheelscan
from kpacktools.trees.spool import Spool
from kpacktools.trees.wheel import OpenedWheel, WheelTree, distribution_of, open_wheel

NAME = "demo-1.0-py3-none-any.whl"
TEXT = b"some text\n" * 300
LARGE = bytes(range(256)) * 9_000


@dataclass
class Item:
    """A member; what the directory and the header before it say may be changed."""

    name: str
    data: bytes = b"x"
    method: int = STORED
    central: dict[str, Any] = field(default_factory=dict)
    local: dict[str, Any] = field(default_factory=dict)

    def packed(self) -> bytes:
        if self.method != DEFLATED:
            return self.data
        packer = zlib.compressobj(9, zlib.DEFLATED, -15)
        return packer.compress(self.data) + packer.flush()


def archive(items: Iterable[Item], limits: ZipLimits = ZipLimits()) -> bytes:
    form = ZipFormat.at(0, limits)
    body = b""
    rows = []
    for item in items:
        data = item.packed()
        row = Packed(
            item.name, 0o644, item.method, zlib.crc32(item.data), len(data), len(item.data), b"", len(body)
        )  # fmt: skip
        local = row._replace(**item.local)
        body += form.header(local.name.encode(), local.method, local.crc, local.packed, local.size) + data
        rows.append(row._replace(**item.central))
    return body + form.directory(rows, len(body))


Opener = Callable[[bytes], OpenedWheel]


@pytest.fixture
def opened(tmp_path: Path) -> Opener:
    def run(data: bytes) -> OpenedWheel:
        path = tmp_path / NAME
        path.write_bytes(data)
        return open_wheel(str(path), Spool())

    return run


def zipped(*members: tuple[str | zipfile.ZipInfo, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as file:
        for name, data in members:
            file.writestr(name, data)
    return stream.getvalue()


def with_mode(name: str, mode: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = mode << 16 | 1  # all zeros would make zipfile invent a mode
    return info


def read(tree: WheelTree, path: str) -> bytes:
    with tree.open(path) as stream:
        return stream.read()


def names(wheel: OpenedWheel) -> list[str]:
    return [finding.name for finding in wheel.findings]


def test_the_distribution_is_that_of_the_file_name() -> None:
    assert distribution_of("a/Rocm_Sdk.Device_gfx942-7.15.0-py3-none-any.whl") == "rocm-sdk-device-gfx942"


def test_the_payload_is_sorted_depth_first_and_dist_info_is_not_in_it(opened: Opener) -> None:
    wheel = opened(
        zipped(("b.py", TEXT), ("a/c/d.py", b""), ("a-b/e", b""), ("demo-1.0.dist-info/RECORD", b""))
    )
    assert wheel.findings == ()
    assert list(wheel.tree.folders) == ["", "a", "a/c", "a-b"]
    assert [entry.path for entry in wheel.tree.folders[""]] == ["b.py"]
    assert wheel.tree.folders[""][0].size == len(TEXT)


def test_files_of_dist_info_are_members_that_can_be_read(opened: Opener) -> None:
    tree = opened(zipped(("demo-1.0.dist-info/METADATA", TEXT))).tree
    assert list(tree.members) == ["demo-1.0.dist-info/METADATA"]
    assert read(tree, "demo-1.0.dist-info/METADATA") == TEXT


def test_folder_entries_are_folders_and_no_files(opened: Opener) -> None:
    tree = opened(zipped(("empty/", b""), ("empty/inner/", b""))).tree
    assert list(tree.folders) == ["", "empty", "empty/inner"]
    assert not tree.members


@pytest.mark.parametrize(
    ("mode", "seen"), [(0o100755, 0o755), (0o755, 0o755), (0o100644, 0o644), (0, 0o644), (0o104755, 0o755)]
)
def test_exec_bits_are_kept_and_others_are_not_invented(opened: Opener, mode: int, seen: int) -> None:
    tree = opened(zipped((with_mode("run", mode), b"x"))).tree
    assert tree.folders[""][0].mode == stat.S_IFREG | seen


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("data", [b"", TEXT, LARGE])
def test_a_member_is_a_seekable_stream(opened: Opener, method: int, data: bytes) -> None:
    tree = opened(zipped(("before", b"b" * 99), ("k", data), ("after", b"a" * 99), method=method)).tree
    assert tree.is_stored("k") == (method == zipfile.ZIP_STORED)
    with tree.open("k") as stream:
        assert stream.seek(0, os.SEEK_END) == len(data)
        assert stream.read() == b""
        assert stream.seek(len(data) // 2) == len(data) // 2
        assert stream.read() == data[len(data) // 2 :]
        stream.seek(-len(data), os.SEEK_CUR)
        assert stream.read() == data
    assert b"".join(tree.blocks("k")) == data


def test_members_are_read_from_several_threads(opened: Opener) -> None:
    data = {f"m{i}": bytes([i]) * (i * 40_000) + LARGE[: i * 40_000] for i in range(24)}
    tree = opened(zipped(*data.items())).tree
    with ThreadPoolExecutor(8) as executor:
        assert list(executor.map(lambda name: read(tree, name), [*data] * 2)) == [*data.values()] * 2


def test_a_path_that_is_not_there_is_an_os_error(opened: Opener) -> None:
    tree = opened(zipped(("a", b"x"))).tree
    for action in (tree.open, tree.is_stored, lambda path: list(tree.blocks(path))):
        with pytest.raises(FileNotFoundError):
            action("b")


def test_a_wheel_that_changed_is_not_read(opened: Opener) -> None:
    tree = opened(zipped(("a", TEXT))).tree
    with open(tree.label, "ab") as stream:
        stream.write(b"more")
    with pytest.raises(OSError, match="changed since it was opened"):
        tree.open("a")


def test_files_can_be_taken_out_of_a_tree(opened: Opener) -> None:
    tree = opened(zipped(("x/a", b"1"), ("x/b", b"2"))).tree.without({"x/a"})
    assert [entry.path for entry in tree.folders["x"]] == ["x/b"] == list(tree.members)
    with pytest.raises(FileNotFoundError):
        tree.open("x/a")


def test_zip64_is_read(opened: Opener) -> None:
    items = [Item("a", TEXT, DEFLATED), Item("b/c", LARGE)]
    wheel = opened(archive(items, ZipLimits(size=10, offset=0, count=1)))
    assert wheel.findings == ()
    assert [read(wheel.tree, item.name) for item in items] == [TEXT, LARGE]


def test_data_descriptors_are_read(opened: Opener) -> None:
    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

        def seek(self, *_: int) -> int:
            raise OSError

        def tell(self) -> int:
            raise OSError

    pipe = Pipe()
    with zipfile.ZipFile(pipe, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("a", TEXT)
        file.writestr("b", b"b")
    wheel = opened(pipe.getvalue())
    assert wheel.findings == ()
    assert read(wheel.tree, "a") == TEXT
    at = pipe.getvalue().index(b"PK\7\10") + 4
    assert names(opened(pipe.getvalue()[:at] + b"\0\0\0\0" + pipe.getvalue()[at + 4 :])) == [
        "archive-invalid"
    ]


def test_names_that_are_no_ascii_are_utf8(opened: Opener) -> None:
    assert list(opened(zipped(("Übersicht.txt", b""))).tree.members) == ["Übersicht.txt"]


HOSTILE_NAMES = {
    "/etc/passwd": "bad-path",
    "../outside": "bad-path",
    "a/../../b": "bad-path",
    "a/./b": "bad-path",
    "a//b": "bad-path",
    "C:/windows": "bad-path",
    "c:drive": "bad-path",
    "nul\0.py": "bad-path",
    "line\nbreak": "bad-path",
    "del\x7f": "bad-path",
    "x" * 5000: "bad-path",
    "a\\b": "wheel-record-invalid",
}


@pytest.mark.parametrize("name", HOSTILE_NAMES, ids=range(len(HOSTILE_NAMES)))
def test_names_that_lead_elsewhere_are_not_in_the_tree(opened: Opener, name: str) -> None:
    wheel = opened(archive([Item("good"), Item(name)]))
    assert names(wheel) == [HOSTILE_NAMES[name]]
    assert list(wheel.tree.members) == ["good"]


def test_a_name_in_an_unknown_code_page_is_a_bad_path(opened: Opener) -> None:
    data = archive([Item("aXb")]).replace(b"aXb", b"a\xfcb")
    assert names(opened(data)) == ["bad-path"]


def test_of_members_with_one_name_the_last_is_read(opened: Opener) -> None:
    wheel = opened(archive([Item("a", b"first"), Item("a", b"last")]))
    assert names(wheel) == ["wheel-record-invalid"]
    assert read(wheel.tree, "a") == b"last"


def test_a_path_that_is_a_file_and_a_folder_is_found(opened: Opener) -> None:
    assert names(opened(archive([Item("a"), Item("a/b")]))) == ["archive-invalid"]


def test_a_folder_with_data_is_found(opened: Opener) -> None:
    assert names(opened(archive([Item("a/", b"hidden")]))) == ["archive-invalid"]


@pytest.mark.parametrize("mode", [stat.S_IFLNK | 0o777, stat.S_IFIFO | 0o644, stat.S_IFDIR | 0o755])
def test_a_member_that_is_no_regular_file_is_found_and_read_as_installers_do(
    opened: Opener, mode: int
) -> None:
    wheel = opened(zipped((with_mode("link", mode), b"../elsewhere")))
    assert names(wheel) == ["special-file"]
    assert stat.S_ISREG(wheel.tree.members["link"].mode)
    assert read(wheel.tree, "link") == b"../elsewhere"


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_member_of_an_unknown_compression_is_not_in_the_tree(opened: Opener, method: int) -> None:
    wheel = opened(zipped(("a", TEXT), method=method))
    assert names(wheel) == ["archive-invalid"]
    assert not wheel.tree.members


def test_an_encrypted_member_is_not_in_the_tree(opened: Opener) -> None:
    data = bytearray(archive([Item("a")]))
    data[6] |= 1
    data[data.index(b"PK\1\2") + 8] |= 1
    wheel = opened(bytes(data))
    assert names(wheel) == ["archive-invalid"]
    assert "encrypted" in wheel.findings[0].message
    assert not wheel.tree.members


DISAGREEMENTS: list[dict[str, Any]] = [
    {"name": "b"},
    {"method": DEFLATED},
    {"crc": 1},
    {"packed": 2},
    {"size": 2},
]


@pytest.mark.parametrize("local", DISAGREEMENTS, ids=str)
def test_a_header_that_contradicts_the_directory_is_found(opened: Opener, local: dict[str, Any]) -> None:
    wheel = opened(archive([Item("a", local=local)]))
    assert names(wheel) == ["archive-invalid"]
    assert "contradict" in wheel.findings[0].message


def test_a_second_name_in_an_extra_field_is_found(opened: Opener) -> None:
    name = zipfile.ZipInfo("shown.py")
    other = b"other.py"
    name.extra = struct.pack("<2HBL", 0x7075, 5 + len(other), 1, zlib.crc32(b"shown.py")) + other
    wheel = opened(zipped((name, b"x")))
    assert set(names(wheel)) == {"archive-invalid"}
    assert "second name" in wheel.findings[-1].message


def test_members_that_overlap_make_a_wheel_unusable(opened: Opener) -> None:
    wheel = opened(archive([Item("a", LARGE), Item("b", central={"offset": 0})]))
    assert names(wheel) == ["archive-invalid"]
    assert "overlap" in wheel.findings[0].message
    assert not wheel.tree.members


def test_bytes_that_belong_to_no_member_are_found(opened: Opener) -> None:
    hidden, shown = archive([Item("hidden"), Item("shown")]), archive([Item("shown")])
    start = hidden.index(b"PK\3\4", 1)
    end = hidden.index(b"PK\1\2")
    directory = ZipFormat.at(0).directory(
        [Packed("shown", 0o644, 0, zlib.crc32(b"x"), 1, 1, b"", start)], end
    )
    assert opened(shown).findings == ()
    wheel = opened(hidden[:end] + directory)
    assert names(wheel) == ["archive-invalid"]
    assert f"{start} bytes at offset 0" in wheel.findings[0].message


def test_bytes_behind_the_end_are_found(opened: Opener) -> None:
    wheel = opened(zipped(("a", TEXT)) + b"garbage")
    assert names(wheel) == ["archive-invalid"]
    assert "7 bytes follow the end" in wheel.findings[0].message
    assert read(wheel.tree, "a") == TEXT


def test_bytes_before_the_start_are_found(opened: Opener) -> None:
    assert names(opened(b"PK\3\4 a program" + zipped(("a", TEXT)))) == ["archive-invalid"]


@pytest.mark.parametrize("kept", [4, 30, 400, -60, -22, -1])
def test_a_cut_wheel_is_empty_and_found(opened: Opener, kept: int) -> None:
    data = zipped(("a", TEXT), ("b", LARGE))
    wheel = opened(data[:kept])
    assert names(wheel) == ["archive-invalid"]
    assert not wheel.tree.members


END, END64, LOCATOR64, CENTRAL = b"PK\5\6", b"PK\6\6", b"PK\6\7", b"PK\1\2"
DAMAGES = {
    "disk": (END, 4),
    "members of the end": (END, 10),
    "start of the end": (END, 16),
    "disk of the locator": (LOCATOR64, 4),
    "offset of the locator": (LOCATOR64, 8),
    "disks of the locator": (LOCATOR64, 16),
    "far offset of the locator": (LOCATOR64, 14),
    "wide end": (END64, 2),
    "members of the wide end": (END64, 32),
    "length of the wide end": (END64, 4),
    "start in the wide end": (END64, 48),
    "directory": (CENTRAL, 2),
    "name in the directory": (CENTRAL, 28),
    "zip64 field": (CENTRAL, 47),
    "length of the zip64 field": (CENTRAL, 49),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_records_make_a_wheel_unusable(opened: Opener, damage: str) -> None:
    data = bytearray(archive([Item("a", LARGE), Item("b", TEXT)], ZipLimits(size=10, offset=0, count=1)))
    magic, position = DAMAGES[damage]
    data[data.index(magic) + position] ^= 0x21
    wheel = opened(bytes(data))
    assert "archive-invalid" in names(wheel)
    assert "a" not in wheel.tree.members


@pytest.mark.parametrize("data", [b"", b"MZ", b"version https://git-lfs.github.com/spec/v1\noid sha256:0"])
def test_what_is_no_zip_file_at_all_is_a_call_error(opened: Opener, data: bytes) -> None:
    with pytest.raises(CallError, match="is no wheel"):
        opened(data)


@pytest.mark.parametrize("method", [STORED, DEFLATED])
def test_a_wrong_checksum_is_found_when_the_bytes_are_read(opened: Opener, method: int) -> None:
    wrong = {"crc": 1}
    tree = opened(archive([Item("a", TEXT, method, central=wrong, local=wrong)])).tree
    with pytest.raises(OSError, match="CRC-32") as caught:
        list(tree.blocks("a"))
    assert "damaged" in str(caught.value.strerror)


@pytest.mark.parametrize("size", [1, len(TEXT) + 1])
def test_a_wrong_size_is_found_when_the_bytes_are_read(opened: Opener, size: int) -> None:
    wrong = {"size": size}
    tree = opened(archive([Item("a", TEXT, DEFLATED, central=wrong, local=wrong)])).tree
    with pytest.raises(OSError, match=r"(that|as) the archive declares"):
        tree.open("a")


def test_bytes_hidden_behind_a_compressed_stream_are_found_when_it_is_read(opened: Opener) -> None:
    item = Item("a", TEXT, DEFLATED)
    packed = item.packed()
    wrong = {"packed": len(packed) + 6}
    row = Packed("a", 0o644, DEFLATED, zlib.crc32(TEXT), len(packed), len(TEXT), b"", 0)._replace(**wrong)
    form = ZipFormat.at(0)
    body = form.header(b"a", DEFLATED, row.crc, row.packed, row.size) + packed + b"hidden"
    tree = opened(body + form.directory([row], len(body))).tree
    with pytest.raises(OSError, match="something follows the end"):
        tree.open("a")


def test_a_member_that_claims_more_than_deflate_can_hold_is_not_in_the_tree(opened: Opener) -> None:
    lie = {"size": 1 << 40}
    wheel = opened(archive([Item("a", TEXT, DEFLATED, central=lie, local=lie)]))
    assert names(wheel) == ["archive-invalid"]
    assert not wheel.tree.members


def test_a_bomb_is_refused_without_unpacking_it(opened: Opener) -> None:
    item = Item("zeros", bytes(1 << 20), DEFLATED)
    size = 1000 * len(item.packed())
    bomb = [
        Item(f"z{i}", item.data, DEFLATED, central={"size": size}, local={"size": size}) for i in range(70)
    ]
    wheel = opened(archive(bomb))
    assert names(wheel) == ["archive-invalid"]
    assert "200 times as many; KPACKTOOLS_MAX_RATIO" in wheel.findings[0].message


def test_the_environment_may_allow_a_bomb_and_forbid_a_wheel(
    opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = archive([Item(f"z{i}", bytes(1 << 20), DEFLATED) for i in range(70)])
    assert names(opened(data)) == ["archive-invalid"]
    monkeypatch.setenv("KPACKTOOLS_MAX_RATIO", "2000")
    assert names(opened(data)) == []
    monkeypatch.setenv("KPACKTOOLS_MAX_UNPACKED", "69MiB")
    assert "more than 72,351,744 bytes; KPACKTOOLS_MAX_UNPACKED" in opened(data).findings[0].message


@pytest.mark.parametrize("name", ["RATIO", "UNPACKED"])
@pytest.mark.parametrize("value", ["much", "²", "-1", "9" * 400], ids=["word", "digit", "negative", "long"])
def test_a_limit_that_is_none_is_refused(
    opened: Opener, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(f"KPACKTOOLS_MAX_{name}", value)
    with pytest.raises(CallError, match=f"^KPACKTOOLS_MAX_{name} "):
        opened(archive([Item("a", b"a")]))


def test_an_endless_list_of_faults_ends(opened: Opener) -> None:
    wheel_opened = opened(archive([Item(f"../{i}") for i in range(500)]))
    assert len(wheel_opened.findings) == wheelscan.MAX_FAULTS + 2
    assert not wheel_opened.tree.members


def test_more_names_than_fit_in_memory_are_refused(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheelscan, "MAX_DIRECTORY", 5_000)
    assert opened(archive([Item(f"{i}") for i in range(10)])).findings == ()
    for items in ([Item(f"{i}") for i in range(100)], [Item("a/" * 20 + "b")]):
        refused = opened(archive(items))
        assert names(refused) == ["archive-invalid"]
        assert not refused.tree.members


SAMPLE = zipped(("pkg/a.py", TEXT), ("pkg/b", b""), ("demo-1.0.dist-info/RECORD", b"pkg/a.py,,\n"))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, len(SAMPLE) - 1), st.integers(0, 255)), min_size=1, max_size=4))
def test_whatever_the_bytes_are_a_wheel_opens_or_says_why_not(
    opened: Opener, changes: list[tuple[int, int]]
) -> None:
    data = bytearray(SAMPLE)
    for position, value in changes:
        data[position] = value
    try:
        tree = opened(bytes(data)).tree
    except CallError:
        return
    for path in tree.members:
        with contextlib.suppress(OSError):
            assert sum(map(len, tree.blocks(path))) == tree.members[path].size
