"""A tar stream, as it comes out of an artifact archive, in blocks of any size."""

from __future__ import annotations

import io
import stat
import tarfile
from collections.abc import Iterator

from targets import say_one_line

from kpacktools.trees.archive import _Index
from kpacktools.trees.decompress import ArchiveError
from kpacktools.trees.tarstream import TarStream


def run(data: bytes) -> None:
    step = 512 + (data[-1] if data else 0)
    tar = TarStream([data[start : start + step] for start in range(0, len(data), step)])
    index = _Index("x_lib_gfx942.tar.zst")
    try:
        index.read(tar)
    except ArchiveError as error:
        say_one_line(error)
        return
    folders = index.folders()
    for folder, entries in folders.items():
        assert not folder.startswith("/")
        assert ".." not in folder.split("/")
        for entry in entries:
            assert entry.path.rpartition("/")[0] == folder
            assert not entry.size or stat.S_ISREG(entry.mode)
    for path, place in index.data.items():
        assert 0 <= place.start <= place.stop <= tar.size <= len(data), path


def seeds() -> Iterator[bytes]:
    for form in (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=form) as tar:
            _add(tar, "artifact_manifest.txt", b"stage\n")
            _add(tar, "stage/lib/a.txt", b"text")
            _add(tar, "stage/lib", b"", tarfile.DIRTYPE)
            _add(tar, "stage/lib/link", b"", tarfile.SYMTYPE, "a.txt")
            _add(tar, "stage/lib/hard", b"", tarfile.LNKTYPE, "stage/lib/a.txt")
            if form != tarfile.USTAR_FORMAT:
                _add(tar, "stage/" + "long/" * 40 + "name", b"x")
                _add(tar, "stage/l", b"", tarfile.SYMTYPE, "long/" * 40)
            if form == tarfile.PAX_FORMAT:
                _add(tar, "stage/\udcff\N{SNOWMAN}", b"x")
        yield out.getvalue()
    yield bytes(1024)


def _add(tar: tarfile.TarFile, name: str, data: bytes, kind: bytes = tarfile.REGTYPE, link: str = "") -> None:
    info = tarfile.TarInfo(name)
    info.type, info.size, info.linkname = kind, len(data), link
    tar.addfile(info, io.BytesIO(data))
