"""What the fuzz targets share: what a target is, inputs in memory, and changes that keep a format readable.

A target is a module ``fuzz_<name>.py`` with ``run(data)``, which gives bytes to a reader and passes only where the
reader answers with a value or with the error that it documents, and ``seeds()``, true inputs of a few KB each. Where
single bytes rarely lead on, ``change(data, random)`` makes another input that can still be read.
"""

from __future__ import annotations

import importlib
import io
import math
import stat
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, BinaryIO, Final

from kpacktools.trees import Entry

__all__ = [
    "HERE",
    "MemoryTree",
    "Target",
    "changed_bytes",
    "changed_document",
    "files_below",
    "load",
    "names",
    "say_one_line",
]

HERE: Final = Path(__file__).resolve().parent

_VALUES: Final = (
    None, True, False, 0, -1, 1, 64, 2**31, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, -(2**63), 0.5, 1e308,
    math.inf, math.nan, "", " ", "\0", "\x1b[2J", "a\nb", "..", "../../x", "/etc/passwd", "C:\\x", "gfx17z", "gfx942",
    "gfx942:xnack+", "gfx90a:sramecc+:xnack-", "gfx11-generic", "gfx1250-strict", "family:gfx11", "generic", "llvm99",
    "llvm22", "x" * 5000, "9" * 5000, "²", "\ud800", "v1", "none", "zstd-per-kernel", [], {}, [[]], {"": {}},
)  # fmt: skip
_BYTES: Final = (
    b"",
    b"\0",
    b"\xff" * 4,
    b"\0" * 8,
    b"\xff" * 8,
    b"\0\0\0\0\0\0\0\x80",
    b"PK\1\2",
    b"\x7fELF",
)


@dataclass(frozen=True)
class Target:
    """One thing to be fuzzed."""

    name: str
    run: Callable[[bytes], None]
    seeds: Callable[[], Iterable[bytes]]
    change: Callable[[bytes, Random], bytes] | None

    def regressions(self) -> list[Path]:
        """Inputs that once did harm."""
        return sorted((HERE / "regressions" / self.name).glob("*"))


def names() -> list[str]:
    """The names of all targets."""
    return sorted(path.stem.removeprefix("fuzz_") for path in HERE.glob("fuzz_*.py"))


def load(name: str) -> Target:
    """One target by name. Raises :class:`ModuleNotFoundError`."""
    module = importlib.import_module(f"fuzz_{name}")
    return Target(name, module.run, module.seeds, getattr(module, "change", None))


def say_one_line(error: Exception) -> None:
    """What is printed of an error is one line."""
    assert "\n" not in str(error)


def changed_bytes(data: bytes, random: Random) -> bytes:
    """Bytes with a piece cut, repeated or replaced."""
    start = random.randrange(len(data) + 1)
    end = min(len(data), start + random.choice((0, 1, 4, 8, 64)))
    return data[:start] + random.choice((*_BYTES, data[start:end] * 2)) + data[end:]


def changed_document(document: Any, random: Random) -> Any:
    """A document of JSON's, TOML's or MessagePack's kinds with one value or name changed; the original is kept."""
    if not isinstance(document, (dict, list)) or not document or random.random() < 0.1:
        return random.choice((*_VALUES, [document], {"x": document}))
    place = random.choice(list(document) if isinstance(document, dict) else range(len(document)))
    changed = document.copy()
    action = random.random()
    if action < 0.7:
        changed[place] = changed_document(document[place], random)
    elif action < 0.8:
        del changed[place]
    elif isinstance(changed, dict):
        changed[random.choice((*document, "", "x", 7, None, "gfx942"))] = document[place]
    else:
        changed.insert(random.randrange(len(changed) + 1), document[place])
    return changed


class MemoryTree:
    """Files that are nowhere but here. Implements :class:`kpacktools.trees.Tree`."""

    def __init__(self, label: str, files: Mapping[str, bytes]) -> None:
        self.label = label
        self._files = files
        folders: dict[str, list[Entry]] = {"": []}
        for path in files:
            parts = path.split("/")[:-1]
            for depth in range(len(parts)):
                folders.setdefault("/".join(parts[: depth + 1]), [])
        for path in sorted(files):
            entry = Entry(path, len(files[path]), stat.S_IFREG | 0o644)
            folders[path.rpartition("/")[0]].append(entry)
        self.folders: Mapping[str, Sequence[Entry]] = {
            name: folders[name] for name in sorted(folders, key=_by_parts)
        }

    def open(self, path: str) -> BinaryIO:
        return io.BytesIO(self._files[path])

    def local_path(self, path: str) -> None:
        return None


def _by_parts(folder: str) -> list[str]:
    return folder.split("/") if folder else []


def files_below(make: Callable[[Path], object]) -> dict[str, bytes]:
    """Path -> bytes of what a function puts into a folder."""
    with tempfile.TemporaryDirectory() as place:
        make(Path(place))
        return {
            path.relative_to(place).as_posix(): path.read_bytes()
            for path in sorted(Path(place).rglob("*"))
            if path.is_file()
        }
