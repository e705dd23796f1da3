from __future__ import annotations

import hashlib
import io
import os
import random
import shutil
import subprocess
import threading
import zipfile
import zlib
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path

import deflate
import pytest
from member_files import PAYLOAD, folder_members, memory_members, write_files

from kpacktools.errors import CallError
from kpacktools.outputs import members as members_module
from kpacktools.outputs import zipset
from kpacktools.outputs.crew import Crew, SharedDigest
from kpacktools.outputs.members import Member, check_names
from kpacktools.outputs.zipformat import DEFLATED, STANDARD_LIMITS, STORED, Packed, ZipFormat, ZipLimits
from kpacktools.outputs.zipset import write_members
from kpacktools.outputs.zipwriter import ZipWriter
from kpacktools.progress import SILENT

NOISE = random.Random(7).randbytes(400_000)
TEXT = b"".join(b"%d kernels for gfx942\n" % n for n in range(20_000))


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every kind of member in miniature: a file is large from 4 KiB, very large from 64 KiB."""
    monkeypatch.setattr(members_module, "BLOCK", 1 << 12)
    monkeypatch.setattr(zipset, "BLOCK", 1 << 12)
    monkeypatch.setattr(zipset, "ONE_SHOT", 1 << 16)


def write(
    path: Path,
    members: Iterable[Member],
    *,
    jobs: int = 2,
    limits: ZipLimits = STANDARD_LIMITS,
    epoch: int = 0,
) -> list[Packed]:
    with ExitStack() as stack:
        writer = stack.enter_context(ZipWriter(os.fspath(path), ZipFormat.at(epoch, limits)))
        crew = stack.enter_context(Crew(jobs))
        assert list(write_members([(writer, list(members))], crew, SILENT)) == [writer]
        size = writer.finish()
        rows = writer.rows
    assert path.stat().st_size == size
    return rows


def read_back(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


EVERY_KIND = {
    **PAYLOAD,
    "large.kpack": NOISE,
    "large.txt": TEXT[:50_000],
    "very-large.txt": TEXT,
    "very-large.dat": NOISE,
    "very-large.zst": NOISE[:-1],
}


@pytest.mark.usefixtures("tiny")
def test_members_of_every_kind_come_back(tmp_path: Path) -> None:
    rows = write(tmp_path / "a.zip", memory_members(EVERY_KIND))
    assert read_back(tmp_path / "a.zip") == EVERY_KIND
    digests = {row.name: row.digest for row in rows}
    assert digests == {name: hashlib.sha256(data).digest() for name, data in EVERY_KIND.items()}


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("jobs", [1, 2, 5])
def test_bytes_do_not_depend_on_threads_order_or_kind_of_tree(tmp_path: Path, jobs: int) -> None:
    write(tmp_path / "a.zip", memory_members(EVERY_KIND), jobs=1)
    members = folder_members(write_files(tmp_path / "tree", EVERY_KIND))
    random.Random(jobs).shuffle(members)
    write(tmp_path / "b.zip", members, jobs=jobs)
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()


@pytest.mark.usefixtures("tiny")
def test_stored_members_with_known_places_come_first(tmp_path: Path) -> None:
    write(tmp_path / "a.zip", memory_members({"z.kpack": NOISE, "a": b"1", "y.kpack": NOISE, "b": TEXT}))
    assert list(read_back(tmp_path / "a.zip")) == ["y.kpack", "z.kpack", "b", "a"]


@pytest.mark.parametrize("suffix", ["kpack", "zst", "xz", "gz", "bz2", "lz4", "zip", "whl", "png", "jpg"])
def test_what_is_compressed_by_name_is_stored(tmp_path: Path, suffix: str) -> None:
    [row] = write(tmp_path / "a.zip", memory_members({f"a.{suffix}": bytes(1000)}))
    assert row.method == STORED


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("size", [1, 1_000, 40_000, 400_000])
def test_what_does_not_shrink_is_stored(tmp_path: Path, size: int) -> None:
    [row] = write(tmp_path / "a.zip", memory_members({"a.dat": NOISE[:size]}))
    assert (row.method, row.packed) == (STORED, size)


@pytest.mark.usefixtures("tiny")
def test_a_very_large_member_deflated_in_vain_is_stored_after_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zipset, "_looks_compressed", lambda member: False)
    [large, small] = write(tmp_path / "a.zip", memory_members({"a.dat": NOISE, "b": b"after"}))
    assert (large.method, large.packed) == (STORED, len(NOISE))
    assert small.offset == large.offset + 35 + len(NOISE)
    assert read_back(tmp_path / "a.zip") == {"a.dat": NOISE, "b": b"after"}


@pytest.mark.usefixtures("tiny")
def test_independent_blocks_make_one_deflate_stream(tmp_path: Path) -> None:
    [row] = write(tmp_path / "a.zip", memory_members({"a": TEXT}), jobs=3)
    start = row.offset + 31
    stream = (tmp_path / "a.zip").read_bytes()[start : start + row.packed]
    decoder = zlib.decompressobj(-zlib.MAX_WBITS)
    assert decoder.decompress(stream) == TEXT
    assert decoder.eof
    assert not decoder.unused_data
    assert deflate.deflate_decompress(stream, len(TEXT)) == TEXT


def test_blocks_know_what_came_before_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(members_module, "BLOCK", 1 << 15)
    monkeypatch.setattr(zipset, "ONE_SHOT", 1 << 16)
    repeating = NOISE[:30_000] * 8
    monkeypatch.setattr(zipset, "_looks_compressed", lambda member: False)
    [row] = write(tmp_path / "a.zip", memory_members({"a": repeating}))
    assert row.method == DEFLATED
    assert row.packed < 40_000


def test_names_beyond_ascii_are_flagged_as_utf8(tmp_path: Path) -> None:
    write(tmp_path / "a.zip", memory_members({"gerät": b"", "plain": b""}))
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        assert {info.filename: info.flag_bits for info in archive.infolist()} == {"gerät": 0x800, "plain": 0}


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [
        (0, (1980, 1, 1, 0, 0, 0)),
        (-5, (1980, 1, 1, 0, 0, 0)),
        (1_700_000_001, (2023, 11, 14, 22, 13, 20)),
        (1 << 40, (2107, 12, 31, 23, 59, 58)),
    ],
)
def test_time_is_utc_and_within_what_a_zip_file_holds(
    tmp_path: Path, epoch: int, expected: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Pacific/Auckland")
    write(tmp_path / "a.zip", memory_members({"a": b""}), epoch=epoch)
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        assert archive.infolist()[0].date_time == expected


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("name", ["small", "large.kpack", "very-large.txt"])
@pytest.mark.parametrize("difference", [-1, 1])
def test_a_file_that_changed_since_the_plan_is_named(tmp_path: Path, name: str, difference: int) -> None:
    content = {"small": b"abc", "large.kpack": NOISE, "very-large.txt": TEXT}
    [member] = folder_members(write_files(tmp_path / "tree", {name: content[name]}))
    planned = member._replace(size=member.size - difference)
    with pytest.raises(CallError, match=rf"tree/{name} changed while it was packed"):
        write(tmp_path / "a.zip", [planned])


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
@pytest.mark.usefixtures("tiny")
def test_an_error_leaves_no_open_file_and_no_thread(tmp_path: Path) -> None:
    root = write_files(tmp_path / "tree", EVERY_KIND)
    members = folder_members(root)
    (root / "large.kpack").unlink()
    before = len(os.listdir("/proc/self/fd"))
    threads = set(threading.enumerate())
    with pytest.raises(FileNotFoundError, match=r"large\.kpack"):
        write(tmp_path / "a.zip", members, jobs=4)
    assert len(os.listdir("/proc/self/fd")) == before
    assert set(threading.enumerate()) <= threads


def test_an_existing_file_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "a.zip").touch()
    with pytest.raises(FileExistsError):
        ZipWriter(os.fspath(tmp_path / "a.zip"), ZipFormat.at(0))


@pytest.mark.usefixtures("tiny")
def test_a_system_without_pwrite_writes_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "a.zip", memory_members(EVERY_KIND))
    monkeypatch.delattr(os, "pwrite", raising=False)
    write(tmp_path / "b.zip", memory_members(EVERY_KIND), jobs=4)
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()


@pytest.mark.usefixtures("tiny")
def test_writes_that_end_early_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda file, data, at: pwrite(file, data[:999], at))
    write(tmp_path / "a.zip", memory_members(EVERY_KIND))
    assert read_back(tmp_path / "a.zip") == EVERY_KIND


@pytest.mark.usefixtures("tiny")
def test_reads_that_end_early_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Trickle(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            return super().read(min(999, size if size is not None and size >= 0 else 999))

    write(tmp_path / "a.zip", memory_members(EVERY_KIND))
    members = memory_members(EVERY_KIND)
    monkeypatch.setattr(type(members[0].tree), "open", lambda self, path: Trickle(EVERY_KIND[path]))
    write(tmp_path / "b.zip", members)
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()


LIMITS = {
    "member": ZipLimits(size=40_000),
    "offset": ZipLimits(offset=60_000),
    "count": ZipLimits(count=4),
    "all": ZipLimits(0, 0, 0),
}


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("limits", LIMITS.values(), ids=LIMITS)
def test_D5_zip64_is_read_by_zipfile(tmp_path: Path, limits: ZipLimits) -> None:
    write(tmp_path / "a.zip", memory_members(EVERY_KIND), limits=limits)
    assert read_back(tmp_path / "a.zip") == EVERY_KIND


@pytest.mark.skipif(shutil.which("unzip") is None, reason="needs unzip")
@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("limits", LIMITS.values(), ids=LIMITS)
def test_D5_zip64_is_read_by_unzip(tmp_path: Path, limits: ZipLimits) -> None:
    write(tmp_path / "a.zip", memory_members(EVERY_KIND), limits=limits)
    done = subprocess.run(
        ["unzip", "-tq", tmp_path / "a.zip"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "LC_ALL": "C.UTF-8"},
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_D5_zip64_is_used_only_where_it_is_needed(tmp_path: Path) -> None:
    limits = ZipLimits(size=1_000)
    write(tmp_path / "a.zip", memory_members({"below": bytes(999), "from": bytes(1_000)}), limits=limits)
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        assert [info.extract_version for info in archive.infolist()] == [20, 45]
    assert b"PK\6\6" not in (tmp_path / "a.zip").read_bytes()


def test_D5_a_place_past_4_gib_fits(tmp_path: Path) -> None:
    form = ZipFormat.at(0)
    rows = [
        Packed("a.kpack", 0o644, STORED, 0, 5 << 30, 5 << 30, b"", 0),
        Packed("b", 0o644, STORED, 0, 0, 0, b"", (5 << 30) + 57),
    ]
    with open(tmp_path / "a.zip", "wb") as stream:
        stream.seek((5 << 30) + 57)
        stream.write(form.header(b"b", STORED, 0, 0, 0) + form.directory(rows, stream.tell() + 31))
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        first, second = archive.infolist()
        assert (first.file_size, first.compress_size, first.header_offset) == (5 << 30, 5 << 30, 0)
        assert second.header_offset == (5 << 30) + 57
        assert archive.read("b") == b""


@pytest.mark.parametrize(
    "name", ["", "/a", "a//b", "a/", ".", "a/../b", "..", "a/./b", "a\\b", "a\nb", "a\udc80", "a" * 20_000]
)
def test_names_that_no_archive_should_hold_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="relative POSIX path"):
        check_names(memory_members({name: b""}))


def test_a_name_that_comes_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="'a'"):
        check_names([*memory_members({"a": b"1"}), *memory_members({"a": b"2"})])


@pytest.mark.parametrize("name", ["...", ".a/..b/c..", "a b", "gfx942:xnack+", "é"])
def test_names_that_are_only_unusual_pass(name: str) -> None:
    check_names(memory_members({name: b""}))


@pytest.mark.parametrize("jobs", [1, 3])
def test_a_crew_gives_back_what_calls_return(jobs: int) -> None:
    calls: list[Callable[[], int]] = [lambda n=n: n * n for n in range(50)]  # type: ignore[misc]
    with Crew(jobs) as crew:
        outcomes = [crew.submit(call, long=n % 3 == 0) for n, call in enumerate(calls)]
        assert [crew.result(outcome) for outcome in outcomes] == [n * n for n in range(50)]


@pytest.mark.parametrize("jobs", [1, 3])
def test_a_crew_raises_what_a_call_raised(jobs: int) -> None:
    with Crew(jobs) as crew, pytest.raises(ZeroDivisionError):
        crew.result(crew.submit(lambda: 1 // 0))


def test_a_crew_ends_long_calls_after_an_error() -> None:
    begun, cancelled = threading.Event(), threading.Event()

    def long(crew: Crew) -> None:
        begun.set()
        try:
            while True:
                crew.check()
        finally:
            cancelled.set()

    def fail() -> None:
        with Crew(2) as crew:
            crew.submit(lambda: long(crew), long=True)
            begun.wait()
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert cancelled.is_set()


@pytest.mark.parametrize("jobs", [1, 2, 4])
def test_a_shared_digest_is_that_of_the_blocks_in_order(jobs: int) -> None:
    pieces = [NOISE[start : start + 5_000] for start in range(0, len(NOISE), 5_000)]
    with Crew(jobs) as crew:
        digest = SharedDigest(crew)
        for piece in pieces:
            digest.update(piece)
        assert digest.digest() == hashlib.sha256(NOISE).digest()


class Tally:
    """A progress that adds up."""

    def __init__(self) -> None:
        self.files = self.size = 0
        self._lock = threading.Lock()

    def start(self, what: str, *, files: int = 0, size: int = 0) -> None: ...

    alone = SILENT.alone

    def advance(self, *, files: int = 0, size: int = 0) -> None:
        with self._lock:
            self.files += files
            self.size += size


@pytest.mark.usefixtures("tiny")
def test_progress_hears_of_every_file_and_byte(tmp_path: Path) -> None:
    tally = Tally()
    with ZipWriter(os.fspath(tmp_path / "a.zip"), ZipFormat.at(0)) as writer, Crew(3) as crew:
        list(write_members([(writer, memory_members(EVERY_KIND))], crew, tally))
    assert (tally.files, tally.size) == (len(EVERY_KIND), sum(map(len, EVERY_KIND.values())))
