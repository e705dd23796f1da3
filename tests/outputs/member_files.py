"""Payloads for the tests of outputs: files in memory and the same files in a folder."""

from __future__ import annotations

import os
import random
from pathlib import Path

from kpacktools.outputs.members import GeneratedFiles, Member
from kpacktools.trees import Entry, Tree
from kpacktools.trees.directory import scan_directory

PAYLOAD = {
    "_rocm_sdk_libraries/lib/engines/a.json": b'{"arch": "gfx942"}' * 90,
    "_rocm_sdk_libraries/lib/engines/gfx942/k.kpack": b"KPAK" + random.Random(1).randbytes(700_000),
    "_rocm_sdk_libraries/lib/engines/gfx942/loose.co": b"\x7fELF"
    + bytes(5_000)
    + random.Random(2).randbytes(900),
    "_rocm_sdk_libraries/lib/engines/gfx942/noise.dat": random.Random(3).randbytes(3_000),
    "_rocm_sdk_libraries/lib/empty": b"",
    '_rocm_sdk_libraries/lib/Übersicht, "quoted".txt': b"names are UTF-8\n" * 20,
}


class MemoryTree(GeneratedFiles):
    """A tree that has no place on disk."""

    @property
    def folders(self) -> dict[str, list[Entry]]:
        return {"": [Entry(member.path, member.size, member.mode) for member in self.members()]}


def memory_members(files: dict[str, bytes]) -> list[Member]:
    tree: Tree = MemoryTree(list(files.items()))
    return [Member(name, tree, name, len(data)) for name, data in files.items()]


def write_files(root: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return root


def folder_members(root: Path) -> list[Member]:
    tree = scan_directory(os.fspath(root))
    return [
        Member(entry.path, tree, entry.path, entry.size, entry.mode)
        for entries in tree.folders.values()
        for entry in entries
    ]
