"""A KPAK archive as bytes: its TOC is read and every kernel decompressed."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from contextlib import suppress
from random import Random

import msgspec
from targets import changed_bytes, changed_document, say_one_line

from kpacktools.kpack import KpackError, read_toc
from kpacktools.kpack.format import HEADER
from kpacktools.kpack.reader import KpackReader, frame_index, stored_count, verify
from kpacktools.kpack.writer import KpackWriter


def run(data: bytes) -> None:
    stream = io.BytesIO(data)
    try:
        toc = read_toc(stream, len(data))
    except KpackError as error:
        say_one_line(error)
        return
    assert toc.count() == len(list(toc.entries())) == sum(toc.count(target) for target in toc.targets())
    with suppress(KpackError):
        stored_count(stream, toc)
    reader = KpackReader(stream, len(data), toc, frame_index(stream, toc))
    found = {}
    for checked in verify(reader):
        found[checked.key, checked.target] = checked
        assert isinstance(checked.result, KpackError) or len(checked.head) == min(checked.size, 64)
    for key, target, kernel in toc.entries():
        one = found[key, target]
        if isinstance(one.result, KpackError) or kernel.original_size > 1 << 16:
            continue
        assert len(reader.read(kernel)) == kernel.original_size


def seeds() -> Iterator[bytes]:
    large = bytes(range(256)) * 4
    for scheme in ("none", "zstd-per-kernel"):
        for kernels in ((), (b"",), (b"\x7fELF", b"", large), (bytes(5 << 20),)[: scheme != "none"]):
            stream = io.BytesIO()
            with KpackWriter(stream, group_name="g", gfx_arch_family="gfx942", scheme=scheme) as writer:  # type: ignore[arg-type]
                for number, kernel in enumerate(kernels):
                    writer.add(f"k#{number}", "gfx942", kernel, metadata={"symbol": "k"} if number else None)
            yield stream.getvalue()
    yield b"version https://git-lfs.github.com/spec/v1\n"


def change(data: bytes, random: Random) -> bytes:
    try:
        offset = HEADER.unpack_from(data)[2]
        document = msgspec.msgpack.decode(data[offset:])
        toc = msgspec.msgpack.encode(changed_document(document, random))
    except (ValueError, TypeError, OverflowError, RecursionError, struct.error):
        return changed_bytes(data, random)
    return data[:offset] + toc
