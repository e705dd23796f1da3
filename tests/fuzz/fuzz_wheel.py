"""A wheel as bytes: its directory, its headers, its members, and what inspect says of all of it."""

from __future__ import annotations

import base64
import hashlib
import io
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from inspecting import inspected

import builders

NAME = "rocm_sdk_device_gfx942-7.15.0-py3-none-linux_x86_64.whl"
DIST_INFO = "rocm_sdk_device_gfx942-7.15.0.dist-info"
METADATA = b"""\
Metadata-Version: 2.4
Name: rocm-sdk-device-gfx942
Version: 7.15.0
Requires-Dist: rocm-sdk-libraries==7.15.0

Text.
"""
WHEEL = b"Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: false\nTag: py3-none-linux_x86_64\n"
PAYLOAD: Mapping[str, bytes] = {
    "_rocm_sdk_libraries/lib/arch_content/aiter/gfx942/k.co": builders.code_object("gfx942"),
    "_rocm_sdk_libraries/lib/a.txt": b"text " * 20,
}


def run(data: bytes, name: str = NAME) -> None:
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / name
        path.write_bytes(data)
        inspected(str(path))


def record(files: Mapping[str, bytes]) -> bytes:
    """The RECORD of some files and itself."""
    lines = []
    for path, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(data)}\n")
    return "".join([*lines, f"{DIST_INFO}/RECORD,,\n"]).encode()


def packed(
    files: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED, *, streamed: bool = False
) -> bytes:
    """A ZIP file."""

    class Stream(io.BytesIO):
        def seekable(self) -> bool:
            return not streamed

        def seek(self, *arguments: int) -> int:
            if streamed:
                raise OSError
            return super().seek(*arguments)

    out = Stream()
    with zipfile.ZipFile(out, "w", method) as archive:
        for path, data in files.items():
            archive.writestr(zipfile.ZipInfo(path), data, method)
    return out.getvalue()


def wide(offset: int) -> bytes:
    """A ZIP file of one member, with zip64 records everywhere; ``offset`` is where it is said to begin."""
    name, data = b"x", b"y"
    common = (0, 0, 0, 33, zlib.crc32(data), len(data), len(data), len(name))
    member = struct.pack("<4sH4H3LHH", b"PK\3\4", 45, *common, 0) + name + data
    extra = struct.pack("<2HQ", 1, 8, offset)
    header = struct.pack(
        "<4s2H4H3L5H2L", b"PK\1\2", 45, 45, *common, len(extra), 0, 0, 0, 0o100644 << 16, 0xFFFFFFFF
    )
    directory = header + name + extra
    end = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, 1, 1, len(directory), len(member))
    locator = struct.pack("<4sLQL", b"PK\6\7", 0, len(member) + len(directory), 1)
    last = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, len(directory), 0xFFFFFFFF, 0)
    return member + directory + end + locator + last


def seeds() -> Iterator[bytes]:
    files = {**PAYLOAD, f"{DIST_INFO}/METADATA": METADATA, f"{DIST_INFO}/WHEEL": WHEEL}
    files[f"{DIST_INFO}/RECORD"] = record(files)
    yield packed(files)
    yield packed(files, zipfile.ZIP_STORED)
    yield packed(files, streamed=True)
    yield packed({"x": b""})
    yield packed({})
    yield wide(0)
