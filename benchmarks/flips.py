"""How many single-bit changes of a rocKE archive's frames go unseen at depth content.

rocKE's bundle manifest carries no digest, and frames written by its packer carry no checksum: damage that still
decompresses to the right length is found only where it breaks what is checked (ELF header, metadata, symbols). This
flips one bit of each byte of the example archive's frames in turn and counts.

    python benchmarks/flips.py
"""

from __future__ import annotations

import io
import shutil
import sys
import tempfile
from pathlib import Path

from kpacktools.commands import inspect
from kpacktools.data import data_path
from kpacktools.hookspecs import Depth
from kpacktools.kpack.format import HEADER
from kpacktools.kpack.reader import KpackReader
from kpacktools.pipeline import Settings


def main() -> int:
    """Print the counts."""
    with tempfile.TemporaryDirectory() as temporary:
        shard = Path(temporary) / "gfx942"
        shutil.copytree(data_path("examples", "shards", "gfx942"), shard)
        archive = next(shard.rglob("rocke_client_gfx942.kpack"))
        archive.chmod(0o644)
        bundle = archive.parent
        original = archive.read_bytes()
        kernels = _kernels(original)
        seen = harmless = unseen = 0
        for index in range(68, HEADER.unpack_from(original)[2]):
            changed = bytearray(original)
            changed[index] ^= 1 << (index % 8)
            archive.write_bytes(changed)
            if inspect([str(bundle)], Settings(depth=Depth.CONTENT)).findings:
                seen += 1
            elif _kernels(bytes(changed)) == kernels:
                harmless += 1
            else:
                unseen += 1
        total = seen + harmless + unseen
        print(f"{total} bits flipped, one in each byte of the frames of {archive.name}")
        for name, count in (("found", seen), ("without effect on any kernel", harmless), ("unseen", unseen)):
            print(f"  {name:30} {count:6}  {count / total:6.1%}")
    return 0


def _kernels(archive: bytes) -> list[bytes]:
    reader = KpackReader(io.BytesIO(archive), len(archive))
    return [reader.read(kernel) for _, _, kernel in reader.toc.entries()]


if __name__ == "__main__":
    sys.exit(main())
