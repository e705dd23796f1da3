"""Checks of names and kinds of file: what some system could not hold."""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator, Sequence
from typing import Final

from kpacktools.findings import Finding, finding
from kpacktools.planning.claims import prefix_of
from kpacktools.trees import Entry, names_in
from kpacktools.trees.shards import Artifact

__all__ = ["MAX_RELATIVE_PATH", "check_names"]

# Control characters, backslashes and bytes that are no UTF-8 (kept by Python as lone surrogates) are never
# right; the others cannot be stored on Windows (Win32 "Naming Files").
_BAD: Final = re.compile("[\x00-\x1f\x7f\\\\\ud800-\udfff]")
_UNPORTABLE: Final = re.compile(r'[:?*"<>|]|[. ](?=/|$)')
_CHARACTERS: Final = re.compile('[\x00-\x1f\x7f\\\\\ud800-\udfff:?*"<>|]')
_RESERVED: Final = frozenset(
    ("con", "prn", "aux", "nul", *(f"{name}{digit}" for name in ("com", "lpt") for digit in range(10)))
)
_BEGINNINGS: Final = tuple(sorted({f"/{name[:3]}" for name in _RESERVED}))
MAX_RELATIVE_PATH: Final = 225
"""Characters of a path below its stage prefix. Windows' MAX_PATH is 260, and even the shortest common install root
(``C:\\Python312\\Lib\\site-packages\\``) takes 31 of them."""


def check_names(artifact: Artifact) -> Iterator[Finding]:
    """``bad-path``, ``unportable-name``, ``path-too-long``, ``special-file`` and ``descriptor-uncaptured``."""
    for folder, entries in artifact.tree.folders.items():
        if not entries:
            continue
        prefix = prefix_of(artifact, folder)
        if prefix is None:
            for entry in entries:
                yield _uncaptured(artifact, entry)
        cut = len(folder) + 1 if folder else 0
        below = 0 if artifact.mount else len(prefix or "") + 1
        names = names_in(entries)
        if (
            cut + max(map(len, names)) - below > MAX_RELATIVE_PATH
            or _is_odd(folder.split("/"))
            or _is_odd(names)
        ):
            for entry in entries:
                yield from _check_name(artifact, entry, below)
        for entry in entries if _is_mixed(entries) else ():
            if not stat.S_ISREG(entry.mode) and not entry.link:
                yield finding(
                    "special-file",
                    artifact.where(entry.path),
                    f"is {_kind(entry.mode)}, which no output can hold",
                    "remove it from the tree",
                )


def _is_odd(names: Sequence[str]) -> bool:
    """True where at least one of some path components needs a closer look. Looks at all of them at once: a tree
    has a hundred thousand names, and hardly ever an odd one."""
    joined = "/".join(names)
    return (
        _CHARACTERS.search(joined) is not None
        or "./" in joined
        or " /" in joined
        or joined.endswith((".", " "))
        or _is_reserved(names, f"/{joined.lower()}")
    )


def _is_reserved(names: Sequence[str], joined: str) -> bool:
    """True where one of some names is reserved. In most folders none even begins like one."""
    return any(beginning in joined for beginning in _BEGINNINGS) and not _RESERVED.isdisjoint(
        [name.partition(".")[0].lower() for name in names]
    )


def _is_mixed(entries: Sequence[Entry]) -> bool:
    """True where not all of some entries are regular files."""
    return not all(map(stat.S_ISREG, {entry.mode for entry in entries}))


def _check_name(artifact: Artifact, entry: Entry, below: int) -> Iterator[Finding]:
    path = entry.path
    shown = artifact.where(path).encode("utf-8", "backslashreplace").decode()
    bad = _BAD.search(path)
    if bad is not None:
        kind = "bytes that are not UTF-8" if ord(bad[0]) >= 0xD800 else f"the character {bad[0]!r}"
        yield finding(
            "bad-path",
            shown.translate({c: f"\\x{c:02x}" for c in (*range(32), 127)}),
            f"the name holds {kind}",
            "rename the file where it is made",
        )
        return
    odd = _UNPORTABLE.search(path)
    reserved = [part for part in path.split("/") if part.partition(".")[0].lower() in _RESERVED]
    if odd is not None or reserved:
        what = repr(odd[0]) if odd is not None else f"the reserved name {reserved[0]!r}"
        yield finding(
            "unportable-name",
            shown,
            f"Windows cannot store {what} in a name",
            "harmless where the content is only for Linux",
        )
    if len(path) - below > MAX_RELATIVE_PATH:
        yield finding(
            "path-too-long",
            shown,
            f"{len(path) - below} characters below its stage prefix; more than {MAX_RELATIVE_PATH} do not fit "
            "Windows' limit of 260 once installed",
            "shorten folder or file names",
        )


def _uncaptured(artifact: Artifact, entry: Entry) -> Finding:
    return finding(
        "descriptor-uncaptured",
        artifact.where(entry.path),
        "lies under no stage prefix of artifact_manifest.txt "
        + (f"({', '.join(artifact.prefixes)})" if artifact.prefixes else "(which is empty)"),
        "add its stage prefix to artifact_manifest.txt, or move the file below one",
    )


def _kind(mode: int) -> str:
    for test, name in (
        (stat.S_ISFIFO, "a FIFO"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISBLK, "a block device"),
        (stat.S_ISCHR, "a character device"),
    ):
        if test(mode):
            return name
    return "no regular file"
