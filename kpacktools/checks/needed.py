"""Shared libraries in wheels: is what they need in the set, and does their RUNPATH lead there?

After ld.so(8): a library names what it needs (``DT_NEEDED``) and the folders where to look (``DT_RUNPATH``), with
``$ORIGIN`` for its own. A library of that name that is loaded already is taken without looking, which is how plugins
get away without a RUNPATH. ELF only.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from kpacktools.checks.references import some
from kpacktools.data import load_table
from kpacktools.errors import CallError
from kpacktools.findings import Finding, Severity, finding
from kpacktools.trees import Tree

__all__ = ["Library", "check_needed", "is_library", "system_libraries"]

_ORIGINS: Final = ("$ORIGIN", "${ORIGIN}")


class Library(NamedTuple):
    """A shared library that will be installed (a tuple: there may be very many)."""

    owner: str
    """The wheel, or the key, that it is reported with."""
    place: str
    """Where it will be, below the root of all that is installed."""
    tree: Tree
    path: str
    """In the tree."""

    @property
    def where(self) -> str:
        return posixpath.join(self.tree.label, self.path)


class _Missed(NamedTuple):
    """What libraries of one owner have in common that are reported together."""

    owner: str
    needed: str
    found: str
    """A place that has it; empty where none does."""


def is_library(path: str) -> bool:
    """True for a name that ELF shared libraries have: ``libfoo.so``, ``libfoo.so.1.2``.

    >>> [name for name in ("lib/a.so", "a.so.1", "a.json", "a.sock") if is_library(name)]
    ['lib/a.so', 'a.so.1']
    """
    name = path.rpartition("/")[2]
    return name.endswith(".so") or ".so." in name


@lru_cache(maxsize=1)
def system_libraries() -> frozenset[str]:
    """What every Linux system has, by ``topology/system-libraries.toml``."""
    groups = load_table("system-libraries.toml")["elf"]
    return frozenset(name for names in groups.values() for name in names)


def check_needed(
    libraries: Iterable[Library],
    places: Mapping[str, str],
    *,
    overlay: str = "",
    external: Sequence[str] = (),
) -> Iterator[Finding]:
    """``wheel-needed-unresolved``: what libraries need and nothing at ``places`` is named like; of severity info
    where something is, and their RUNPATH does not lead there.

    ``places`` maps where each file will be, below the root of all that is installed, to what to call it. Where these
    are only files below ``overlay``, a library whose RUNPATH leads elsewhere may find there what it needs. ``external``
    are distributions that may hold anything: what only they could have is of severity info.

    Raises :class:`~kpacktools.errors.CallError` when a file cannot be read.
    """
    by_name: dict[str, str] = {}
    for place in sorted(filter(is_library, places)):
        by_name.setdefault(place.rpartition("/")[2], place)
    missed: dict[_Missed, list[tuple[Library, tuple[str, ...]]]] = {}
    for library in libraries:
        needed, runpath = _read(library)
        folders = [_folder(library.place, entry) for entry in runpath]
        for name in needed:
            if name in system_libraries() or any(
                posixpath.normpath(f"{folder}/{name}") in places for folder in folders
            ):
                continue
            found = by_name.get(name, "")
            if found or not any(_is_outside(folder, overlay) for folder in folders):
                missed.setdefault(_Missed(library.owner, name, found), []).append((library, runpath))
    for what, cases in missed.items():
        yield _finding(what, places.get(what.found, ""), cases, external)


def _read(library: Library) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Needed names and RUNPATH; nothing of what is no ELF file."""
    from kpacktools.hostfile import read_host  # where there are libraries

    try:
        binary = read_host(library.tree, library.path)
    except OSError as error:
        raise CallError(f"cannot read {library.where}: {error.strerror}") from error
    if binary is None or binary.format != "elf":
        return (), ()
    return binary.needed, binary.runpath


def _folder(place: str, entry: str) -> str | None:
    """The folder that an entry of a RUNPATH means for a library at a place; None for one that is not relative to
    it."""
    for origin in _ORIGINS:
        rest = entry.removeprefix(origin)
        if rest != entry and rest[:1] in ("", "/"):
            return posixpath.normpath(posixpath.join(posixpath.dirname(place), rest.lstrip("/")))
    return None


def _is_outside(folder: str | None, overlay: str) -> bool:
    return bool(overlay) and folder is not None and not f"{folder}/".startswith(f"{overlay}/")


def _finding(
    what: _Missed, found: str, cases: Sequence[tuple[Library, Sequence[str]]], external: Sequence[str]
) -> Finding:
    library, runpath = cases[0]
    led = f"its RUNPATH ({':'.join(runpath)}) does not lead" if runpath else "no RUNPATH leads"
    others = [other.path for other, _ in cases[1:]]
    too = f"; so {'does' if len(others) == 1 else 'do'} {some(others)}" if others else ""
    sources = tuple(other.where for other, _ in cases) if others else ()
    if not found:
        unless = f", unless an external distribution has it ({', '.join(external)})" if external else ""
        return finding(
            "wheel-needed-unresolved",
            library.where,
            f"needs {what.needed}, which neither the set nor the host nor every Linux system has{unless}{too}",
            "add it to the host, or declare the distribution that has it with --external",
            sources=sources,
            severity=Severity.INFO if external else None,
        )
    way = posixpath.relpath(*(f"/{posixpath.dirname(place)}" for place in (what.found, library.place)))
    return finding(
        "wheel-needed-unresolved",
        library.where,
        f"needs {what.needed}, which is {found}, and {led} there: it is only found once something else "
        f"has loaded it{too}",
        "link it with -Wl,-rpath,'$ORIGIN" + ("" if way == "." else f"/{way}") + "'",
        sources=sources,
        severity=Severity.INFO,
    )
