"""Floors: the least that a job costs in one plain program. Each is run as a process of its own::

    python floors.py store OUT TREE...    read, hash and store: one uncompressed zip for each tree
    python floors.py deflate OUT TREE...  read, hash and deflate on all cores, by libdeflate: one file of it all
    python floors.py tocs ROOT            decode the table of contents of each kpack
    python floors.py manifests ROOT       the same, and decode each JSON file
    python floors.py kernels ROOT         decompress and hash each kernel, on all cores

Nothing is checked and nothing of kpacktools is used.
"""

from __future__ import annotations

import hashlib
import os
import struct
import sys
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec

_CHUNK = 1 << 20
_FILES = 32
"""Files that a thread takes at a time."""
_BATCH = 8 << 20
"""Bytes of frames that a thread takes at a time."""

Frame = tuple[int, int]
"""Offset and size in the file."""


def files(root: Path) -> Iterator[str]:
    for folder, _, names in os.walk(root):
        for name in names:
            yield f"{folder}/{name}"


def store(out: Path, trees: Sequence[Path]) -> None:
    """One zip of stored members for each tree, its name that of the tree's folder."""
    buffer = memoryview(bytearray(_CHUNK))
    for number, tree in enumerate(trees):
        cut = len(str(tree)) + 1
        digests = []
        with zipfile.ZipFile(out / f"{number}.zip", "x", zipfile.ZIP_STORED) as archive:
            for path in files(tree):
                digest = hashlib.sha256()
                size = os.stat(path).st_size
                member = zipfile.ZipInfo(path[cut:])
                member.file_size = size
                with open(path, "rb", buffering=0) as source, archive.open(member, "w") as sink:
                    while count := source.readinto(buffer):
                        digest.update(buffer[:count])
                        sink.write(buffer[:count])
                digests.append(f"{path[cut:]},{digest.hexdigest()},{size}\n")
            archive.writestr("RECORD", "".join(digests))


def deflate_all(out: Path, trees: Sequence[Path]) -> None:
    """Deflated members one after the other, as small as the wheels of kpacktools; no archive."""
    paths = [path for tree in trees for path in files(tree)]
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool, open(out / "members", "xb") as sink:
        for pieces in pool.map(deflated, (paths[at : at + _FILES] for at in range(0, len(paths), _FILES))):
            sink.writelines(pieces)


def deflated(paths: Sequence[str]) -> list[bytes]:
    import deflate  # not for the other floors

    pieces = []
    for path in paths:
        with open(path, "rb", buffering=0) as source:
            data = source.read()
        hashlib.sha256(data).digest()
        zlib.crc32(data)
        pieces.append(bytes(deflate.deflate_compress(data, 5 if len(data) < 40 << 10 else 6)))
    return pieces


def toc(path: str) -> dict[str, Any]:
    """A kpack's table of contents, as MessagePack has it."""
    with open(path, "rb") as file:
        offset = struct.unpack("<4sIQ", file.read(16))[2]
        file.seek(offset)
        decoded: dict[str, Any] = msgspec.msgpack.decode(file.read())
        return decoded


def tocs(root: Path) -> None:
    for path in files(root):
        if path.endswith(".kpack"):
            toc(path)


def manifests(root: Path) -> None:
    for path in files(root):
        if path.endswith(".kpack"):
            toc(path)
        elif path.endswith(".json"):
            msgspec.json.decode(Path(path).read_bytes())


def frames(path: str) -> Iterator[Frame]:
    """Where the compressed kernels (or, in an archive of scheme none, the plain ones) lie."""
    contents = toc(path)
    if "blobs" in contents:
        for blob in contents["blobs"]:
            yield blob["offset"], blob["size"]
        return
    position = contents["zstd_offset"] + 4
    with open(path, "rb") as file:
        file.seek(contents["zstd_offset"])
        (count,) = struct.unpack("<I", file.read(4))
        for _ in range(count):
            file.seek(position)
            (size,) = struct.unpack("<I", file.read(4))
            yield position + 4, size
            position += 4 + size


def kernels(root: Path) -> None:
    """Batches of neighbouring frames, shared among as many threads as there are cores."""
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        work = []
        for path in files(root):
            if path.endswith(".kpack"):
                plain = "blobs" in toc(path)
                work += [pool.submit(hash_all, path, batch, plain) for batch in batches(frames(path))]
        for done in work:
            done.result()


def batches(all_frames: Iterator[Frame]) -> Iterator[list[Frame]]:
    batch: list[Frame] = []
    size = 0
    for frame in all_frames:
        batch.append(frame)
        size += frame[1]
        if size >= _BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def hash_all(path: str, batch: Sequence[Frame], plain: bool) -> None:
    import zstandard  # not for the other floors

    decompressor = zstandard.ZstdDecompressor()
    with open(path, "rb", buffering=0) as file:
        for offset, size in batch:
            if plain:
                digest = hashlib.sha256()
                for start in range(0, size, _CHUNK):
                    digest.update(os.pread(file.fileno(), min(_CHUNK, size - start), offset + start))
            else:
                digest = hashlib.sha256(decompressor.decompress(os.pread(file.fileno(), size, offset)))
            digest.hexdigest()


def main(arguments: Sequence[str]) -> None:
    name, *paths = arguments
    if name in ("store", "deflate"):
        {"store": store, "deflate": deflate_all}[name](Path(paths[0]), [Path(path) for path in paths[1:]])
    else:
        {"tocs": tocs, "manifests": manifests, "kernels": kernels}[name](Path(paths[0]))


if __name__ == "__main__":
    main(sys.argv[1:])
