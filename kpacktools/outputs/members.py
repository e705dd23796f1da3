"""Members of an archive before they are written: their names and where their bytes come from."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import BinaryIO, Final, NamedTuple, Protocol

from kpacktools.errors import CallError
from kpacktools.trees import Readable, read_start
from kpacktools.trees.access import open_to_copy

__all__ = [
    "BLOCK",
    "GeneratedFiles",
    "Later",
    "Member",
    "Source",
    "blocks",
    "check_names",
    "is_compressed",
    "read",
    "samples",
]

BLOCK: Final = 1 << 19
"""Bytes that are handled at once where a member is not held in memory as a whole."""

_COMPRESSED: Final = (".kpack", ".zst", ".xz", ".gz", ".bz2", ".lz4", ".zip", ".whl", ".png", ".jpg")

# Absolute paths, empty and dot components; control characters, backslashes and what UTF-8 cannot express.
_BAD_NAME: Final = re.compile("(?:^|/)\\.{0,2}(?:/|$)|[\x00-\x1f\x7f\\\\\ud800-\udfff]")
_BAD_PARTS: Final = ("\\", "//", "/./", "/../")
_LONGEST_NAME: Final = 0xFFFF // 4
"""Characters; a ZIP file counts the bytes of a name in 16 bits, and UTF-8 takes up to four a character."""


class Source(Readable, Protocol):
    """The part of a :class:`kpacktools.trees.Tree` that writing needs."""

    @property
    def label(self) -> str:
        """The root's name, for messages."""


class Member(NamedTuple):
    """A member that is to be written (a tuple: there are very many)."""

    arcname: str
    """Path in the archive."""
    tree: Source
    path: str
    """Where in ``tree`` the bytes are."""
    size: int
    """How many bytes these are; what is read must be exactly as many."""
    mode: int = 0o644
    """Permission bits, of which an archive keeps whether any exec bit is set."""


class Later(NamedTuple):
    """Content that is made each time that it is read: many wheels at once would hold too much of it until then."""

    size: int
    make: Callable[[], bytes]


class GeneratedFiles:
    """Files that exist in memory only, as pairs of name and content.

    >>> files = GeneratedFiles([("pkg/py.typed", b"")])
    >>> [member.arcname for member in files.members()]
    ['pkg/py.typed']
    """

    label = "generated"

    def __init__(self, files: Sequence[tuple[str, bytes | Later]]) -> None:
        self._names = [name for name, _ in files]
        self._files = dict(files)

    def members(self) -> list[Member]:
        """One member for each file, under its own name."""
        return [Member(name, self, name, _size(self._files[name])) for name in self._names]

    def open(self, path: str) -> BinaryIO:
        """A stream of one file."""
        content = self._files[path]
        return io.BytesIO(content.make() if isinstance(content, Later) else content)

    def local_path(self, path: str) -> None:
        """None: there is no such file on disk."""


def _size(content: bytes | Later) -> int:
    return content.size if isinstance(content, Later) else len(content)


def is_compressed(name: str) -> bool:
    """True where the name says that the content is compressed already."""
    return name.endswith(_COMPRESSED)


def check_names(members: Iterable[Member]) -> None:
    """Refuse names that an archive must not hold, and a name that comes twice.

    Raises :class:`ValueError` that names the first.
    """
    names = [member.arcname for member in members]
    # All names at once first, where a slash between two neither hides nor makes a bad one: ten times as fast.
    together = f"/{'/'.join(names)}/" if names else ""
    longest = max(map(len, names), default=0)
    if longest > _LONGEST_NAME or not together.isprintable() or any(part in together for part in _BAD_PARTS):
        for name in names:
            if len(name) > _LONGEST_NAME or _BAD_NAME.search(name) is not None:
                raise ValueError(f"not a relative POSIX path that an archive can hold: {name!r}")
    if len(set(names)) < len(names):
        twice = next(name for name, count in Counter(names).items() if count > 1)
        raise ValueError(f"two members have one name: {twice!r}")


def read(member: Member) -> bytes:
    """A member's bytes.

    Raises :class:`OSError` where they cannot be read and :class:`~kpacktools.errors.CallError` where they are
    not as many as planned.
    """
    data = read_start(member.tree, member.path, member.size + 1)
    if len(data) != member.size:
        raise _changed(member)
    return data


def blocks(member: Member) -> Iterator[bytes]:
    """A member's bytes, :data:`BLOCK` at a time; raises like :func:`read`.

    Only the last block may be shorter, whatever the stream: what is made of the blocks must be reproducible.
    """
    with _open(member) as stream:
        for start in range(0, member.size, BLOCK):
            wanted = min(BLOCK, member.size - start)
            block = _read_exactly(stream, wanted)
            if len(block) != wanted:
                raise _changed(member)
            yield block
        if stream.read(1):
            raise _changed(member)


def samples(member: Member, count: int, size: int) -> Iterator[bytes]:
    """``count`` pieces of ``size`` bytes, from the start to the end in even steps."""
    with _open(member) as stream:
        for index in range(count):
            stream.seek((member.size - size) * index // (count - 1))
            yield _read_exactly(stream, size)


def _open(member: Member) -> BinaryIO:
    local = member.tree.local_path(member.path)
    # Whole files and large blocks are read at once, so that a buffer would only add a copy.
    return open(local, "rb", buffering=0) if local is not None else open_to_copy(member.tree, member.path)


def _read_exactly(stream: BinaryIO, size: int) -> bytes:
    """Up to ``size`` bytes: less only at the end of the stream."""
    data = stream.read(size)
    while len(data) < size and (more := stream.read(size - len(data))):
        data += more
    return data


def _changed(member: Member) -> CallError:
    return CallError(
        f"{member.tree.label}/{member.path} changed while it was packed: it no longer has the {member.size} "
        "bytes that were planned; run again when nothing writes to it"
    )
