"""One planned file on its way to its destination."""

from __future__ import annotations

import errno
import io
import os
import stat
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import pytest

from kpacktools.errors import CallError
from kpacktools.outputs import transfer
from kpacktools.outputs.transfer import LinkMode, OpenFolder, put_file
from kpacktools.planning.plan import PlannedFile
from kpacktools.trees import Entry

SPARSE = 5 << 30


class FolderTree:
    """A tree over a real folder; with ``local`` false it gives streams only, as an archive does."""

    label = "shard"
    folders: Mapping[str, Sequence[Entry]] = {}

    def __init__(self, root: Path, *, local: bool = True) -> None:
        self.root = root
        self.local = local

    def open(self, path: str) -> BinaryIO:
        return (self.root / path).open("rb")

    def local_path(self, path: str) -> str | None:
        return str(self.root / path) if self.local else None

    def planned(self, path: str) -> PlannedFile:
        status = (self.root / path).lstat()
        linked = stat.S_ISLNK(status.st_mode)
        link = os.readlink(self.root / path) if linked else ""
        return PlannedFile(path, self, Entry(path, 0 if linked else status.st_size, status.st_mode, link))


@pytest.fixture
def tree(tmp_path: Path) -> FolderTree:
    (tmp_path / "in").mkdir()
    return FolderTree(tmp_path / "in")


@pytest.fixture
def out(tmp_path: Path) -> Path:
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


def put(file: PlannedFile, out: Path, link: LinkMode = "auto") -> Path:
    with OpenFolder(str(out)) as folder:
        put_file(file, folder, "copy", link)
    return out / "copy"


def failing(code: int) -> object:
    def fail(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    return fail


@pytest.mark.parametrize("link", ["auto", "copy"])
def test_copies_are_independent_of_the_input(tree: FolderTree, out: Path, link: LinkMode) -> None:
    (tree.root / "a").write_bytes(b"before")
    copy = put(tree.planned("a"), out, link)
    copy.write_bytes(b"after!")
    assert (tree.root / "a").read_bytes() == b"before"


def test_a_hard_link_is_the_input(tree: FolderTree, out: Path) -> None:
    (tree.root / "a").write_bytes(b"a")
    (tree.root / "a").chmod(0o444)
    copy = put(tree.planned("a"), out, "hardlink")
    assert copy.samefile(tree.root / "a")
    assert stat.S_IMODE(copy.stat().st_mode) == 0o444


@pytest.mark.parametrize("code", [errno.EXDEV, errno.EPERM, errno.EMLINK])
def test_where_no_hard_link_is_to_be_had_the_file_is_copied(
    tree: FolderTree, out: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    (tree.root / "a").write_bytes(b"a")
    monkeypatch.setattr(os, "link", failing(code))
    copy = put(tree.planned("a"), out, "hardlink")
    assert copy.read_bytes() == b"a"
    assert not copy.samefile(tree.root / "a")


def test_neighbours_are_linked_from_wherever_they_are(tree: FolderTree, out: Path) -> None:
    names = ["x/1", "x/2", "x/3", "y/1", "x/4", "z", "x/5", "x/6"]
    for name in names:
        (tree.root / name).parent.mkdir(exist_ok=True)
        (tree.root / name).write_text(name)
    with OpenFolder(str(out)) as folder:
        for number, name in enumerate(names):
            put_file(tree.planned(name), folder, str(number), "hardlink")
    assert [(out / str(number)).read_text() for number in range(len(names))] == names


@pytest.mark.parametrize("local", [True, False])
def test_D7_a_read_only_kpack_and_a_helper_become_writable_and_stay_executable(
    tree: FolderTree, out: Path, local: bool
) -> None:
    tree.local = local
    for name, mode, wanted in [("k.kpack", 0o444, 0o644), ("helper", 0o555, 0o755), ("secret", 0o000, 0o600)]:
        (tree.root / name).write_bytes(b"x")
        file = tree.planned(name)
        file = file._replace(entry=file.entry._replace(mode=stat.S_IFREG | mode))
        copy = put(file, out)
        assert stat.S_IMODE(copy.stat().st_mode) == wanted
        copy.unlink()


def test_the_umask_does_not_change_the_mode(tree: FolderTree, out: Path) -> None:
    (tree.root / "a").write_bytes(b"a")
    (tree.root / "a").chmod(0o775)
    before = os.umask(0o077)
    try:
        copy = put(tree.planned("a"), out)
    finally:
        os.umask(before)
    assert stat.S_IMODE(copy.stat().st_mode) == 0o775


@pytest.mark.parametrize("target", ["a", "folder", "../elsewhere", "nowhere"])
def test_links_are_made_as_they_are_stored(tree: FolderTree, out: Path, target: str) -> None:
    (tree.root / "folder").mkdir()
    (tree.root / "link").symlink_to(target)
    assert os.readlink(put(tree.planned("link"), out)) == target


def test_a_file_without_a_local_path_is_streamed(tree: FolderTree, out: Path) -> None:
    data = os.urandom(3 << 20)
    (tree.root / "a").write_bytes(data)
    tree.local = False
    assert put(tree.planned("a"), out, "hardlink").read_bytes() == data


@pytest.mark.parametrize("link", ["auto", "copy"])
def test_a_sparse_file_of_5_gib_stays_sparse(tree: FolderTree, out: Path, link: LinkMode) -> None:
    with (tree.root / "big.kpack").open("wb") as stream:
        stream.write(b"head")
        stream.seek(3 << 30)
        stream.write(b"middle")
        stream.truncate(SPARSE)
    if (tree.root / "big.kpack").stat().st_blocks * 512 > 1 << 20:
        pytest.skip("this file system has no holes")
    copy = put(tree.planned("big.kpack"), out, link)
    assert copy.stat().st_size == SPARSE
    assert copy.stat().st_blocks * 512 <= 1 << 20
    with copy.open("rb") as stream:
        assert stream.read(5) == b"head\0"
        stream.seek((3 << 30) - 1)
        assert stream.read(8) == b"\0middle\0"


@pytest.mark.parametrize("broken", [(), ("copy_file_range",), ("copy_file_range", "sendfile")])
def test_every_way_to_copy_gives_the_same_bytes(
    tree: FolderTree, out: Path, monkeypatch: pytest.MonkeyPatch, broken: tuple[str, ...]
) -> None:
    data = os.urandom((2 << 20) + 7)
    (tree.root / "a").write_bytes(data)
    monkeypatch.setattr(transfer, "clone", lambda reader, writer: False)
    for name in broken:
        monkeypatch.setattr(os, name, failing(errno.EXDEV), raising=False)
    assert put(tree.planned("a"), out).read_bytes() == data


@pytest.mark.skipif(sys.platform != "linux", reason="Linux has several ways to copy")
def test_a_way_that_stops_early_is_continued_by_the_next(
    tree: FolderTree, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = os.urandom(100_000)
    (tree.root / "a").write_bytes(data)
    real = os.copy_file_range

    def first_four(reader: int, writer: int, count: int, source: int, target: int) -> int:
        return real(reader, writer, min(count, 4), source, target) if not source else 0

    monkeypatch.setattr(transfer, "clone", lambda reader, writer: False)
    monkeypatch.setattr(os, "copy_file_range", first_four)
    assert put(tree.planned("a"), out).read_bytes() == data


@pytest.mark.parametrize("share", [True, False])
def test_only_auto_asks_for_shared_extents(
    tree: FolderTree, out: Path, monkeypatch: pytest.MonkeyPatch, share: bool
) -> None:
    data = os.urandom(100_000)
    (tree.root / "a").write_bytes(data)
    asked: list[int] = []

    def clone(reader: int, writer: int) -> bool:
        asked.append(writer)
        os.write(writer, os.read(reader, len(data)))
        return True

    monkeypatch.setattr(transfer, "clone", clone)
    assert put(tree.planned("a"), out, "auto" if share else "copy").read_bytes() == data
    assert bool(asked) is share


def test_what_cannot_share_is_asked_once_a_folder(
    tree: FolderTree, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def clone(reader: int, writer: int) -> bool:
        asked.append(writer)
        return False

    monkeypatch.setattr(transfer, "clone", clone)
    with OpenFolder(str(out)) as folder:
        for name in ("a", "b", "c"):
            (tree.root / name).write_bytes(bytes(100_000))
            transfer.put_file(tree.planned(name), folder, name, "auto")
    assert len(asked) == 1
    assert {path.stat().st_size for path in out.iterdir()} == {100_000}


@pytest.mark.parametrize("local", [True, False])
@pytest.mark.parametrize("link", ["auto", "copy"])
@pytest.mark.parametrize("now", [b"longer than scanned", b"short"])
def test_a_file_that_changed_since_the_scan_is_named(
    tree: FolderTree, out: Path, link: LinkMode, now: bytes, local: bool
) -> None:
    tree.local = local
    (tree.root / "a").write_bytes(b"as scanned")
    file = tree.planned("a")
    (tree.root / "a").write_bytes(now)
    with pytest.raises(CallError, match=r"^shard/a changed while it was read: .* 10 bytes"):
        put(file, out, link)


def test_a_file_that_shrinks_under_the_copy_is_named(
    tree: FolderTree, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tree.root / "a").write_bytes(b"as scanned")
    monkeypatch.setattr(transfer, "clone", lambda reader, writer: False)
    monkeypatch.setattr(transfer, "copy_extent", lambda reader, writer, start, end, ways: end - 1)
    with pytest.raises(CallError, match="shard/a changed while it was read"):
        put(tree.planned("a"), out)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFOs here")
def test_a_fifo_in_the_place_of_a_file_does_not_hang(tree: FolderTree, out: Path) -> None:
    os.mkfifo(tree.root / "a")
    with pytest.raises(CallError, match="changed while it was read"):
        put(PlannedFile("a", tree, Entry("a", 0, stat.S_IFREG | 0o644)), out)


def test_a_special_file_is_never_opened(tree: FolderTree, out: Path) -> None:
    with pytest.raises(CallError, match="shard/pipe is neither a file nor a link"):
        put(PlannedFile("pipe", tree, Entry("pipe", 0, stat.S_IFIFO | 0o644)), out)


@pytest.mark.parametrize("link", ["auto", "copy", "hardlink"])
def test_a_vanished_file_is_one_line_with_path_and_reason(
    tree: FolderTree, out: Path, link: LinkMode
) -> None:
    file = PlannedFile("lib/a", tree, Entry("a", 1, stat.S_IFREG | 0o644))
    with pytest.raises(
        CallError, match=r"^shard/a could not be written to lib/a: No such file or directory$"
    ):
        put(file, out, link)


@pytest.mark.parametrize("link", ["auto", "copy", "hardlink"])
@pytest.mark.parametrize("local", [True, False])
def test_nothing_is_written_over(tree: FolderTree, out: Path, link: LinkMode, local: bool) -> None:
    tree.local = local
    (tree.root / "a").write_bytes(b"new")
    (out / "copy").write_bytes(b"old")
    with pytest.raises(CallError, match="File exists"):
        put(tree.planned("a"), out, link)
    assert (out / "copy").read_bytes() == b"old"


def test_a_full_disk_is_not_retried_in_another_way(
    tree: FolderTree, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tree.root / "a").write_bytes(bytes(100_000))
    tried: list[str] = []

    def full(*_: int) -> int:
        tried.append("first")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(transfer, "clone", lambda reader, writer: False)
    monkeypatch.setattr(transfer, "_SHARING_WAYS", (full, full))
    with pytest.raises(CallError, match="No space left on device"):
        put(tree.planned("a"), out)
    assert tried == ["first"]


def _sparse(path: Path, size: int, parts: Mapping[int, bytes]) -> str:
    with path.open("wb") as stream:
        for offset, data in parts.items():
            stream.seek(offset)
            stream.write(data)
        stream.truncate(size)
    return str(path)


@pytest.mark.parametrize(
    ("size", "parts", "same"),
    [
        (SPARSE, {0: b"head", 3 << 30: b"middle"}, True),
        (SPARSE, {0: b"head", 1 << 30: bytes(100), 3 << 30: b"middle"}, True),
        (SPARSE, {0: b"head", 3 << 30: b"fiddle"}, False),
        (SPARSE, {0: b"head", 3 << 30: b"middle", SPARSE - 1: b"x"}, False),
        (SPARSE, {0: b"head"}, False),
        (SPARSE + 1, {0: b"head", 3 << 30: b"middle"}, False),
    ],
)
def test_files_are_compared_without_reading_what_is_a_hole_in_both(
    tmp_path: Path, size: int, parts: Mapping[int, bytes], same: bool
) -> None:
    one = _sparse(tmp_path / "one", SPARSE, {0: b"head", 3 << 30: b"middle"})
    if os.stat(one).st_blocks * 512 > 1 << 20:
        pytest.skip("this file system has no holes")
    other = _sparse(tmp_path / "other", size, parts)
    assert transfer.same_files(one, other) is same
    assert transfer.same_files(other, one) is same


@pytest.mark.parametrize("length", [0, 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1])
def test_files_are_compared_to_their_ends(tmp_path: Path, length: int) -> None:
    data = os.urandom(length)
    files = {
        "same": data,
        "longer": data + b"x",
        "other": data[:-1] + bytes([data[-1] ^ 1]) if data else b"x",
    }
    (tmp_path / "one").write_bytes(data)
    for name, other in files.items():
        (tmp_path / name).write_bytes(other)
        assert transfer.same_files(str(tmp_path / "one"), str(tmp_path / name)) is (name == "same")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [(b"", b"", True), (b"ab", b"ab", True), (b"ab", b"a", False), (b"a", b"ab", False)],
)
def test_streams_are_compared_to_their_ends(one: bytes, other: bytes, same: bool) -> None:
    assert transfer.same_bytes(io.BytesIO(one), io.BytesIO(other)) is same
