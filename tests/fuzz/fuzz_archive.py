"""An artifact archive as bytes, ``.tar.zst`` or ``.tar.xz`` by its magic: decompressed, scanned, and its files read."""

from __future__ import annotations

import lzma
import tempfile
from collections.abc import Iterator
from pathlib import Path

import fuzz_tar
import zstandard

from kpacktools.trees.archive import open_archive
from kpacktools.trees.spool import Spool


def run(data: bytes) -> None:
    form = "xz" if data.startswith(b"\xfd") else "zst"
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / f"x_lib_gfx942.tar.{form}"
        path.write_bytes(data)
        opened = open_archive(str(path), Spool())
        for found in opened.findings:
            assert "\n" not in found.message
        files = [entry for entries in opened.tree.folders.values() for entry in entries if entry.size]
        for entry in files[:10]:
            with opened.tree.open(entry.path) as stream:
                assert len(stream.read(1 << 16)) == min(entry.size, 1 << 16)


def seeds() -> Iterator[bytes]:
    whole = next(fuzz_tar.seeds())
    yield zstandard.compress(whole)
    yield zstandard.ZstdCompressor(write_checksum=True, write_content_size=False).compress(whole)
    yield (
        zstandard.compress(whole[:1000]) + b"\x50\x2a\x4d\x18\4\0\0\0abcd" + zstandard.compress(whole[1000:])
    )
    yield lzma.compress(whole, check=lzma.CHECK_NONE)
    yield lzma.compress(whole[:1000]) + bytes(8) + lzma.compress(whole[1000:])
    yield zstandard.compress(bytes(1 << 20))
