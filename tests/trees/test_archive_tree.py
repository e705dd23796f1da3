"""Artifact archives are read as trees, and refused where anything is wrong with them."""

from __future__ import annotations

import hashlib
import io
import lzma
import os
import stat
import tarfile
import tempfile
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from kpacktools.trees import Entry, Tree, archive, decompress, tarstream
from kpacktools.trees.archive import OpenedArchive, open_archive
from kpacktools.trees.directory import scan_directory
from kpacktools.trees.names import archive_stem
from kpacktools.trees.spool import Spool

MANIFEST = "artifact_manifest.txt"
NAME = "hip_lib_gfx942.tar.zst"

Member = tuple[tarfile.TarInfo, bytes]


def member(name: str, data: bytes = b"", kind: bytes = tarfile.REGTYPE, link: str = "") -> Member:
    """A member; a folder's, link's or device's with its ``kind``."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, link, len(data)
    return info, data


def tar(members: Iterable[Member], form: int = tarfile.PAX_FORMAT) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=form, encoding="utf-8") as archive:
        for info, data in members:
            archive.addfile(info, io.BytesIO(data))
    return stream.getvalue()


def compress(data: bytes, name: str = NAME) -> bytes:
    if name.endswith(".xz"):
        return lzma.compress(data, preset=0)
    return zstandard.ZstdCompressor(write_checksum=True, threads=1).compress(data)


class Archive:
    """An archive file in the making."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, data: bytes, name: str = NAME) -> Path:
        path = self.folder / name
        path.write_bytes(data)
        return path

    def of(self, *members: Member, name: str = NAME, form: int = tarfile.PAX_FORMAT) -> Path:
        """Members behind a manifest."""
        return self.write(compress(tar([member(MANIFEST, b"stage\n"), *members], form), name), name)


@pytest.fixture
def made(tmp_path: Path) -> Archive:
    return Archive(tmp_path)


def opened(path: Path) -> OpenedArchive:
    return open_archive(str(path), Spool())


def entries(found: OpenedArchive) -> dict[str, Entry]:
    return {entry.path: entry for entries in found.tree.folders.values() for entry in entries}


def names(found: OpenedArchive) -> list[str]:
    return [finding.name for finding in found.findings]


def refusal(path: Path) -> str:
    """The message of the one finding of an archive that is refused as a whole."""
    found = opened(path)
    assert names(found) == ["archive-invalid"]
    assert dict(found.tree.folders) == {"": ()}
    assert found.findings[0].path == str(path)
    return found.findings[0].message


def fault(path: Path, name: str = "archive-invalid") -> str:
    """The message of the one finding about a member."""
    found = opened(path)
    assert names(found) == [name]
    return found.findings[0].message


def read(found: OpenedArchive, path: str) -> bytes:
    with found.tree.open(path) as stream:
        return stream.read()


@pytest.mark.parametrize("name", [NAME, "hip_lib_gfx942.tar.xz"])
def test_an_archive_is_the_tree_of_its_folder(made: Archive, tmp_path: Path, name: str) -> None:
    root = tmp_path / "hip_lib_gfx942"
    for path in ("stage/lib/z.so", "stage/lib/a/deep.so", "stage/lib-extra/x", "stage/top"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(path.encode() * 999)
    (root / "stage/lib/link.so").symlink_to("z.so")
    (root / "stage/lib/z.so").chmod(0o755)
    (root / "stage/empty").mkdir()
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        archive.addfile(member(MANIFEST, b"stage\n")[0], io.BytesIO(b"stage\n"))
        archive.add(root / "stage", "stage")
    found = opened(made.write(compress(stream.getvalue(), name), name))
    expected = scan_directory(str(root))
    assert found.findings == ()
    assert found.manifest == b"stage\n"
    assert list(found.tree.folders) == list(expected.folders)
    assert {k: list(v) for k, v in found.tree.folders.items()} == dict(expected.folders)
    for path, entry in entries(found).items():
        if stat.S_ISREG(entry.mode):
            assert read(found, path) == (root / path).read_bytes()


@pytest.mark.parametrize(
    ("path", "stem"),
    [
        ("hip_lib_gfx942.tar.zst", "hip_lib_gfx942"),
        ("out/blas_lib_gfx942:xnack+.tar.xz", "out/blas_lib_gfx942:xnack+"),
        ("hip_lib_gfx942.tar.gz", None),
        ("hip_lib_gfx942", None),
        (".tar.zst", None),
        ("hip_lib_gfx942.tar.zst.sha256sum", None),
    ],
)
def test_archives_are_known_by_their_names(path: str, stem: str | None) -> None:
    assert archive_stem(path) == stem


def test_files_are_seekable_streams_of_their_own(made: Archive) -> None:
    found = opened(made.of(member("stage/a", b"0123456789"), member("stage/b", b"other")))
    with found.tree.open("stage/a") as stream:
        assert stream.seek(-3, os.SEEK_END) == 7
        assert stream.read() == b"789"
        assert stream.seek(2) == 2
        assert stream.seek(1, os.SEEK_CUR) == 3
        assert stream.read(2) == b"34"
        assert stream.seek(99) == 99
        assert stream.read() == b""
        with pytest.raises(ValueError, match="negative"):
            stream.seek(-1)


def test_many_threads_may_read_at_once(made: Archive) -> None:
    texts = {f"stage/{number}": str(number).encode() * 5000 for number in range(40)}
    found = opened(made.of(*(member(path, data) for path, data in texts.items())))
    with ThreadPoolExecutor(8) as pool:
        assert dict(zip(texts, pool.map(lambda path: read(found, path), texts), strict=True)) == texts


def test_archives_share_a_spool(made: Archive) -> None:
    spool = Spool()
    one = open_archive(str(made.of(member("stage/a", b"one"), name="a_lib_generic.tar.zst")), spool)
    two = open_archive(str(made.of(member("stage/a", b"two"), name="b_lib_generic.tar.xz")), spool)
    assert (read(two, "stage/a"), read(one, "stage/a")) == (b"two", b"one")


def test_nothing_is_unpacked_until_a_file_is_opened(made: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(made.folder / "absent"))
    found = opened(made.of(member("stage/a", b"data")))
    assert list(entries(found)) == ["stage/a"]
    with pytest.raises(OSError, match="absent"):
        found.tree.open("stage/a")


def test_a_stream_outlives_its_tree(made: Archive) -> None:
    stream = opened(made.of(member("stage/a", b"data"))).tree.open("stage/a")
    with stream:
        assert stream.read() == b"data"


def test_what_is_no_regular_file_cannot_be_opened(made: Archive) -> None:
    tree: Tree = opened(made.of(member("stage/link", kind=tarfile.SYMTYPE, link="a"))).tree
    for path in ("stage/link", "stage", "stage/absent", MANIFEST):
        with pytest.raises(FileNotFoundError):
            tree.open(path)
    assert tree.local_path("stage/link") is None


def test_an_archive_that_changed_since_is_not_read(made: Archive) -> None:
    found = opened(made.of(member("stage/a", b"data")))
    made.of(member("stage/a", b"other data"))
    with pytest.raises(OSError, match="changed since"):
        found.tree.open("stage/a")


def test_a_hard_link_is_a_copy_of_its_target(made: Archive) -> None:
    first, data = member("stage/lib/libx.so.1.0", b"library")
    first.mode = 0o755
    link = member("stage/lib/libx.so.1", kind=tarfile.LNKTYPE, link="stage/lib/libx.so.1.0")
    found = opened(made.of((first, data), link))
    assert found.findings == ()
    assert entries(found)["stage/lib/libx.so.1"] == Entry("stage/lib/libx.so.1", 7, stat.S_IFREG | 0o755)
    assert read(found, "stage/lib/libx.so.1") == b"library"


def test_a_hard_link_must_follow_its_target(made: Archive) -> None:
    link = member("stage/b", kind=tarfile.LNKTYPE, link="stage/a")
    assert "does not come before it" in fault(made.of(link, member("stage/a", b"data")))


@pytest.mark.parametrize("target", ["/etc/passwd", "../../etc/passwd", "."])
def test_a_hard_link_out_of_the_archive_is_refused(made: Archive, target: str) -> None:
    link = member("stage/b", kind=tarfile.LNKTYPE, link=target)
    assert target in fault(made.of(link), "bad-path")


@pytest.mark.parametrize("name", ["/etc/passwd", "../x", "stage/../../x", "stage/..", "."])
def test_a_member_that_is_no_path_inside_is_refused(made: Archive, name: str) -> None:
    found = opened(made.of(member(name, b"data"), member("stage/a", b"data")))
    assert names(found) == ["bad-path"]
    assert list(entries(found)) == ["stage/a"]


def test_a_folder_outside_is_refused(made: Archive) -> None:
    assert "'../x'" in fault(made.of(member("../x", kind=tarfile.DIRTYPE)), "bad-path")


def test_dots_and_slashes_in_names_make_no_difference(made: Archive) -> None:
    found = opened(made.of(member("./", kind=tarfile.DIRTYPE), member("./stage//x/./a", b"data")))
    assert found.findings == ()
    assert list(entries(found)) == ["stage/x/a"]


@pytest.mark.parametrize("target", ["/opt/rocm/lib", "../../x", "a/../../../x"])
def test_a_link_out_of_the_archive_is_a_finding(made: Archive, target: str) -> None:
    found = opened(made.of(member("stage/link", kind=tarfile.SYMTYPE, link=target)))
    assert names(found) == ["symlink-escape"]
    assert entries(found)["stage/link"].link == target


@pytest.mark.parametrize("target", ["a", "../other/a", "sub/../a"])
def test_a_link_inside_is_kept_as_it_is(made: Archive, target: str) -> None:
    found = opened(made.of(member("stage/link", kind=tarfile.SYMTYPE, link=target)))
    assert found.findings == ()
    assert entries(found)["stage/link"].link == target


def test_a_name_that_comes_twice_is_refused(made: Archive) -> None:
    assert "more than once" in fault(made.of(member("stage/a", b"1"), member("./stage/a", b"2")))
    assert "more than once" in fault(made.of(member(MANIFEST, b"other\n")))


def test_a_folder_may_come_twice(made: Archive) -> None:
    folder = member("stage/x", kind=tarfile.DIRTYPE)
    found = opened(made.of(member("stage/x/a"), folder, folder))
    assert found.findings == ()
    assert list(found.tree.folders) == ["", "stage", "stage/x"]


@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.SYMTYPE])
def test_a_file_or_link_that_holds_a_file_is_refused(made: Archive, kind: bytes) -> None:
    above = member("stage/a", kind=kind, link="/tmp" if kind == tarfile.REGTYPE else "b")
    assert "'stage/a' both as a folder" in fault(made.of(above, member("stage/a/b", b"data")))


@pytest.mark.parametrize(
    ("kind", "test"),
    [(tarfile.CHRTYPE, stat.S_ISCHR), (tarfile.BLKTYPE, stat.S_ISBLK), (tarfile.FIFOTYPE, stat.S_ISFIFO)],
)
def test_devices_are_entries_that_are_no_files(
    made: Archive, kind: bytes, test: Callable[[int], bool]
) -> None:
    assert test(entries(opened(made.of(member("stage/dev", kind=kind))))["stage/dev"].mode)


def test_the_manifest_must_be_there(made: Archive) -> None:
    path = made.write(compress(tar([member("stage/a", b"data")])))
    assert refusal(path) == f"it holds no {MANIFEST}"


def test_the_manifest_must_be_a_file(made: Archive) -> None:
    path = made.write(compress(tar([member(MANIFEST, kind=tarfile.SYMTYPE, link="x")])))
    assert "no regular file" in refusal(path)


def test_the_manifest_must_be_small(made: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MAX_MANIFEST", 3)
    assert "more than 3 bytes" in refusal(made.of())


def test_the_manifest_must_come_first(made: Archive) -> None:
    path = made.write(compress(tar([member("stage/a", b"data"), member(MANIFEST, b"stage\n")])))
    assert "first member" in fault(path)
    assert opened(path).manifest == b"stage\n"


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_long_names_and_links_are_read(made: Archive, form: int) -> None:
    name, target = "stage/" + "n/" * 200 + "é", "t" * 150
    found = opened(
        made.of(
            member(name, b"data"),
            member("stage/link", kind=tarfile.SYMTYPE, link=target),
            member("stage/x"),
            form=form,
        )
    )
    assert sorted(entries(found)) == [*sorted(["stage/link", name]), "stage/x"]
    assert entries(found)["stage/link"].link == target
    assert read(found, name) == b"data"


def test_ustar_prefixes_are_read(made: Archive) -> None:
    name = "stage/" + "folder/" * 20 + "file"
    assert list(entries(opened(made.of(member(name), form=tarfile.USTAR_FORMAT)))) == [name]


def test_names_that_are_not_utf_8_are_those_of_the_file_system(made: Archive) -> None:
    name = os.fsdecode(b"stage/\xff")
    assert list(entries(opened(made.of(member(name), form=tarfile.GNU_FORMAT)))) == [name]


def test_a_pax_size_counts(made: Archive) -> None:
    info, data = member("stage/a", b"data" * 200)
    info.pax_headers = {"size": str(len(data))}
    assert read(opened(made.of((info, data), member("stage/b"))), "stage/a") == data


@pytest.mark.parametrize("size", ["-1", "1e3", "٣", "9" * 30, str(1 << 60)])
def test_an_impossible_pax_size_is_refused(made: Archive, size: str) -> None:
    info, data = member("stage/a", b"data")
    info.pax_headers = {"size": size}
    refusal(made.of((info, data)))


def test_pax_headers_for_all_members_count(made: Archive) -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", pax_headers={"comment": "made by hand"}) as archive:
        archive.addfile(member(MANIFEST)[0])
    assert opened(made.write(compress(stream.getvalue()))).findings == ()


@pytest.mark.parametrize(
    "record", [b"8 path=x\n", b"99 path=stage/a\n", b"0 a=b\n", b"x\n", b"10 path=a/", b"7 =abc\n", b"5 abc"]
)
def test_a_damaged_pax_header_is_refused(made: Archive, record: bytes) -> None:
    assert "pax header" in refusal(made.of(member("pax", record, tarfile.XHDTYPE), member("stage/a")))


def test_a_pax_header_without_its_member_is_refused(made: Archive) -> None:
    assert "without the member" in refusal(made.of(member("pax", b"16 path=stage/a\n", tarfile.XHDTYPE)))


def test_a_huge_header_is_refused(made: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tarstream, "MAX_EXTENSION", 100)
    assert "the header of a member has" in refusal(made.of(member("stage/" + "n" * 200)))


def test_a_name_that_no_system_takes_is_refused(made: Archive) -> None:
    assert "4,096" in refusal(made.of(member("stage/" + "n/" * 3000)))


def test_sparse_members_are_refused(made: Archive) -> None:
    info, data = member("stage/a", b"data")
    info.pax_headers = {"GNU.sparse.major": "1"}
    assert "not supported" in refusal(made.of((info, data)))
    assert "not supported" in refusal(made.of(member("stage/a", kind=tarfile.GNUTYPE_SPARSE)))


def test_an_unknown_type_is_refused(made: Archive) -> None:
    assert "not supported: b'Q'" in refusal(made.of(member("stage/a", kind=b"Q")))


@pytest.mark.parametrize("kind", [tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_data_behind_what_is_no_file_is_refused(made: Archive, kind: bytes) -> None:
    info, _ = member("stage/a", kind=kind, link="b")
    header = info.tobuf(tarfile.USTAR_FORMAT)
    info.size = 512
    # (tarfile itself leaves the size out)
    sized = bytearray(header[:124] + b"00000001000\0" + header[136:])
    sized[148:156] = b"%06o\0 " % (sum(sized[:148]) + 256 + sum(sized[156:]))
    stream = tar([member(MANIFEST, b"stage\n")])[:1024] + bytes(sized) + bytes(512 + 1024)
    assert "but has data" in refusal(made.write(compress(stream)))


@pytest.mark.parametrize("name", [NAME, "hip_lib_gfx942.tar.xz"])
@pytest.mark.parametrize("cut", [1, 4, 5, 13, 400, 1000])
def test_a_cut_archive_is_refused(made: Archive, name: str, cut: int) -> None:
    whole = compress(tar([member(MANIFEST, b"stage\n"), member("stage/a", os.urandom(2000))]), name)
    message = refusal(made.write(whole[:-cut], name))
    assert "cut" in message


@pytest.mark.parametrize("name", [NAME, "hip_lib_gfx942.tar.xz"])
def test_a_damaged_archive_is_refused(made: Archive, name: str) -> None:
    whole = bytearray(
        compress(tar([member(MANIFEST, b"stage\n"), member("stage/a", os.urandom(2000))]), name)
    )
    whole[len(whole) // 2] ^= 1
    assert "cannot be decompressed" in refusal(made.write(bytes(whole), name))


@pytest.mark.parametrize("name", [NAME, "hip_lib_gfx942.tar.xz"])
@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "cut|empty"),
        (b"PK\3\4 something else entirely", "cannot be decompressed"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "Git LFS pointer"),
    ],
)
def test_another_kind_of_file_is_refused(made: Archive, name: str, data: bytes, message: str) -> None:
    found = opened(made.write(data, name))
    assert names(found) == ["archive-invalid"]
    assert any(part in found.findings[0].message for part in message.split("|"))


@pytest.mark.parametrize("name", [NAME, "hip_lib_gfx942.tar.xz"])
def test_junk_behind_the_archive_is_refused(made: Archive, name: str) -> None:
    assert refusal(made.write(compress(tar([member(MANIFEST)]), name) + b"junk junk junk", name))


@pytest.mark.parametrize("name", [NAME, "hip_lib_gfx942.tar.xz"])
def test_several_frames_are_one_stream(made: Archive, name: str) -> None:
    data = tar([member(MANIFEST, b"stage\n"), member("stage/a", b"data")])
    padding = bytes(4) if name.endswith("xz") else b"\x50\x2a\x4d\x18\x03\0\0\0abc"
    whole = compress(data[:700], name) + padding + compress(b"", name) + compress(data[700:], name)
    found = opened(made.write(whole, name))
    assert found.findings == ()
    assert read(found, "stage/a") == b"data"


def test_a_tar_stream_without_an_end_is_refused(made: Archive) -> None:
    assert "has no end" in refusal(made.write(compress(tar([member(MANIFEST, b"stage\n")])[:1024])))


def test_a_second_tar_stream_is_refused(made: Archive) -> None:
    stream = tar([member(MANIFEST, b"stage\n")])
    assert "follows the end" in refusal(made.write(compress(stream + stream)))


def test_a_damaged_header_is_not_taken_for_the_end(made: Archive) -> None:
    stream = bytearray(tar([member(MANIFEST, b"stage\n"), member("stage/a"), member("stage/b")]))
    stream[1024] ^= 1
    assert "no tar stream at byte 1,024" in refusal(made.write(compress(bytes(stream))))


def test_a_member_that_declares_too_much_is_refused(made: Archive) -> None:
    info, _ = member("stage/a")
    info.size = 1 << 40
    stream = tar([member(MANIFEST, b"stage\n")])[:1024] + info.tobuf(tarfile.GNU_FORMAT) + bytes(1024)
    assert "declares 1,099,511,627,776 bytes" in refusal(made.write(compress(stream)))


def test_a_bomb_is_refused(made: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decompress, "FREE_SIZE", 1 << 20)
    bomb = made.of(member("stage/a", b"a" * (5 << 20)))
    assert "1,000 times as many; KPACKTOOLS_MAX_RATIO" in refusal(bomb)
    monkeypatch.setenv("KPACKTOOLS_MAX_RATIO", "100000")
    assert open_archive(str(bomb), Spool()).findings == ()


def test_a_bomb_of_zeros_is_refused(made: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KPACKTOOLS_MAX_UNPACKED", "6MiB")
    data = b"a" * (5 << 20), bytes(5 << 20)
    bomb = made.of(*(member(f"stage/{number}", piece) for number, piece in enumerate(data)))
    assert "more than 6,291,456 bytes" in refusal(bomb)
    monkeypatch.setenv("KPACKTOOLS_MAX_UNPACKED", "11MiB")
    assert open_archive(str(bomb), Spool()).findings == ()


def test_the_zeros_of_a_sparse_file_are_no_bomb_and_take_no_room(
    made: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decompress, "FREE_SIZE", 1 << 20)
    data = b"head" + bytes(8 << 20) + b"tail"
    spool = Spool()
    found = open_archive(str(made.of(member("stage/a", data))), spool)
    assert found.findings == ()
    assert read(found, "stage/a") == data
    assert os.stat(spool._opened().fileno()).st_blocks * 512 < 2 << 20


def test_endless_names_are_refused(made: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MAX_INDEX", 3000)
    assert "names" in refusal(made.of(*(member(f"stage/{number}") for number in range(20))))
    assert "names" in refusal(made.of(member("stage/" + "n/" * 100)))


def test_endless_faults_end_in_a_refusal(made: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MAX_FAULTS", 2)
    found = opened(made.of(*(member(f"/{number}") for number in range(9))))
    assert names(found) == ["archive-invalid", "bad-path", "bad-path", "bad-path"]


def digest_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    "line", ["{0}\n", "{0}", "{1}\n", "{0}  {2}\n", "{0} *{2}\r\n", "00  other\n{0}  out/{2}\n"]
)
def test_a_checksum_that_matches_says_nothing(made: Archive, line: str) -> None:
    path = made.of(member("stage/a", b"data"))
    digest = digest_of(path)
    Path(f"{path}.sha256sum").write_text(line.format(digest, digest.upper(), path.name))
    assert opened(path).findings == ()


def test_a_checksum_that_does_not_match_is_a_finding(made: Archive) -> None:
    path = made.of(member("stage/a", b"data"))
    Path(f"{path}.sha256sum").write_text(f"{'0' * 64}\n")
    found = opened(path)
    assert names(found) == ["digest-mismatch"]
    assert digest_of(path) in found.findings[0].message
    assert list(entries(found)) == ["stage/a"]


@pytest.mark.parametrize("text", ["", "no digest\n", "0" * 63, "0" * 64 + "  other.tar.zst\n"])
def test_a_checksum_file_without_the_checksum_is_a_finding(made: Archive, text: str) -> None:
    path = made.of()
    Path(f"{path}.sha256sum").write_text(text)
    found = opened(path)
    assert names(found) == ["archive-invalid"]
    assert found.findings[0].path == f"{path}.sha256sum"


WHOLE = compress(
    tar([member(MANIFEST, b"stage\n"), *(member(f"stage/{n}", b"%d" % n * 99) for n in range(9))])
)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, len(WHOLE) - 1), st.integers(1, 255), st.booleans())
def test_whatever_is_damaged_is_one_finding_or_changed_nothing(at: int, change: int, cut: bool) -> None:
    data = WHOLE[:at] if cut else WHOLE[:at] + bytes([WHOLE[at] ^ change]) + WHOLE[at + 1 :]
    with tempfile.TemporaryDirectory() as folder:
        found = opened(Archive(Path(folder)).write(data))
        if names(found) != ["archive-invalid"]:  # a bit that decoders ignore
            assert not cut
            assert found.findings == ()
            assert [read(found, path) for path in entries(found)] == [b"%d" % n * 99 for n in range(9)]
