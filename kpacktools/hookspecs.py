"""What a plugin may provide. This module is the plugin author's manual.

A plugin is a module (or object) with a function marked :data:`hookimpl`, registered under the entry-point group
``kpacktools``; the built-in handlers come in through the same hook::

    from kpacktools.hookspecs import Checked, Handler, hookimpl

    class AcmeHandler(Handler):
        name = "acme"
        engines = ("acme",)
        summary = "arch_content/acme/<target>/**"

    @hookimpl
    def kpacktools_handlers():
        return [AcmeHandler()]

A handler only looks: it says which folders are its engine's and checks what it is shown. It never writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Protocol

import pluggy
from msgspec import Struct

from kpacktools.findings import Finding

if TYPE_CHECKING:  # these take longer to import than all handlers, and only annotations name them
    from kpacktools.kpack import Toc
    from kpacktools.lanes import LaneTable
    from kpacktools.targets import TargetKey, TargetTable
    from kpacktools.trees import Entry
    from kpacktools.trees.shards import Artifact

__all__ = ["Bundle", "Checked", "Content", "Depth", "Expected", "Handler", "Stated", "hookimpl", "hookspec"]

PROJECT: Final = "kpacktools"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


class Depth(IntEnum):
    """How deep a command looks."""

    LAYOUT = 0
    """Names, sizes and manifests."""
    TOC = 1
    """Also every kpack's table of contents."""
    CONTENT = 2
    """Also every kernel: decompressed, hashed, its ELF header read."""


class Bundle(Struct, frozen=True, eq=False, dict=True):
    """All files of one engine for one target key under one stage prefix of one artifact directory."""

    engine: str
    handler: str
    key: TargetKey
    shard: str
    artifact: Artifact
    prefix: str
    """Stage prefix, ``ml-libs/hipkernelprovider/stage``."""
    roots: tuple[str, ...]
    """The target folders, as tree paths."""
    entries: tuple[Entry, ...]

    @property
    def path(self) -> str:
        """The (first) target folder as the user would type it."""
        return self.artifact.where(self.roots[0])

    def files(self, *suffixes: str) -> list[Entry]:
        """The bundle's entries whose names end in one of ``suffixes``, all without any."""
        if not suffixes:
            return list(self.entries)
        candidates: Sequence[Entry] = self.entries
        if all("." in suffix for suffix in suffixes):
            by_ending = self._by_ending
            there = {suffix.rpartition(".")[2] for suffix in suffixes} & by_ending.keys()
            if not there:
                return []
            if len(there) == 1:
                candidates = by_ending[there.pop()]
        return [entry for entry in candidates if entry.path.endswith(suffixes)]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum([entry.size for entry in self.entries])

    @cached_property
    def _by_ending(self) -> Mapping[str, Sequence[Entry]]:
        """What follows the last dot -> entries, made once anybody asks: there may be very many of them."""
        by_ending: dict[str, list[Entry]] = {}
        for entry in self.entries:
            by_ending.setdefault(entry.path.rpartition(".")[2], []).append(entry)
        return by_ending


class Stated(Struct, frozen=True):
    """Some place's word on which target a bundle is for; the core compares all of them with the folder."""

    what: str
    """``"manifest"``, ``"archive name"``, ``"TOC"``, ``"code object"``."""
    target: str
    """The target ID as written there."""
    path: str = ""
    """Tree path of the file that says so."""


class Expected(Struct, frozen=True):
    """What a manifest says about one kernel; at depth content the core compares it with the code object itself."""

    path: str
    """Tree path of the archive, or of the loose file."""
    manifest: str
    """Tree path of the manifest that says so."""
    at: str
    """Where in the manifest: a JSON path."""
    key: str | None = None
    """TOC key; None for a loose file."""
    symbol: str | None = None
    """Kernel symbol, with or without ``.kd``."""
    sha256: str | None = None
    """Of the (decompressed) code object, in hexadecimal."""
    arguments: tuple[tuple[int | None, int | None], ...] | None = None
    """(offset, size) in bytes of each explicit argument; None for what the manifest does not say."""


class Checked(Struct, frozen=True):
    """What a handler found out about one bundle."""

    findings: tuple[Finding, ...] = ()
    kernels: int | None = None
    """Kernels in the bundle; None takes the core's count (TOC entries and loose code objects)."""
    stated: tuple[Stated, ...] = ()
    expected: tuple[Expected, ...] = ()
    """What the manifests say about single kernels; looked at only at depth content."""
    lane: str | None = None
    """Compiler lane that the manifest declares, such as ``llvm22``."""
    lane_is_default: bool = False
    """The declared lane is what a packer writes when nobody tells it: the measured one counts."""
    ops: frozenset[str] = frozenset()
    """The operations that the bundle has kernels for, for lanes that consumers admit by op."""
    build_id: str | None = None


class Content(Protocol):
    """A bundle's bytes, as far as the depth allows; reading is cached and bounded."""

    @property
    def depth(self) -> Depth: ...

    @property
    def targets(self) -> TargetTable: ...

    @property
    def lanes(self) -> LaneTable: ...

    @property
    def kpacks(self) -> Mapping[str, Toc]:
        """Tree path -> table of contents, of the archives that could be read. Empty at depth layout."""

    def read(self, path: str) -> bytes:
        """One file's bytes. Raises :class:`OSError`; :class:`ValueError` for a file too large to be read."""

    def json(self, path: str) -> Any:
        """One JSON file, decoded. Raises :class:`OSError`; :class:`ValueError` for invalid JSON."""


class Handler:
    """The knowledge of one engine: which folders are its own and how to check them.

    Subclass it, set the attributes, override what differs.
    """

    name: str
    """The word used in a topology's ``split_databases`` and in reports."""
    engines: Sequence[str] = ()
    """The engine's folder names below ``arch_content``; the first is the engine's name in reports."""
    containers: Sequence[str] = ()
    """Further folders that hold ``<target>`` folders, or files that :meth:`target_of_file` knows, as POSIX paths
    matched on whole components at any depth, such as ``aiter_meta/hsa``."""
    file_names: Sequence[str] = ()
    """Names of files that are the engine's wherever they lie, as :mod:`fnmatch` patterns that hold ``gfx``, such
    as ``*MIOpenCK*_gfx*.so``; :meth:`target_of_file` is asked about each."""
    summary: str = ""
    """What it claims, in one line, for ``kpacktools handlers``."""

    @property
    def engine(self) -> str:
        """The engine's name in reports."""
        return self.engines[0] if self.engines else self.name

    def target_of(self, folder: str) -> str:
        """The target that a folder name below a container spells; the name itself unless overridden.

        Names that do not look like a target are plain folders.
        """
        return folder

    def target_of_file(self, path: str, targets: TargetTable) -> str | None:
        """The target that a file's name spells, for engines that keep files of all targets in one folder.

        ``path`` is relative to the container (just the name for a match of ``file_names``). None where the name
        carries no target; a name that nobody knows becomes ``unknown-target``.
        """
        return None

    def check(self, bundle: Bundle, content: Content) -> Checked:
        """Check one bundle. Must not raise for bad input: whatever is wrong with it is a finding."""
        return Checked()


@hookspec
def kpacktools_handlers() -> Iterable[Handler]:  # type: ignore[empty-body]
    """The handlers that this plugin provides. Called once a run."""
