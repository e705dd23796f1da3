"""The difference of two sets, as data. Text, JSON and Markdown are made from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from msgspec import Struct

from kpacktools.diffing.records import digest_of_record, name_of_record
from kpacktools.findings import Finding

__all__ = [
    "Amount",
    "Cell",
    "Changed",
    "Difference",
    "DistributionChange",
    "Kernel",
    "Move",
    "MoveKind",
    "Moved",
    "Renamed",
]

MoveKind = Literal["renamed", "split", "joined", "moved"]


class Kernel(NamedTuple):
    """A kernel that one side has."""

    record: bytes
    """Its :mod:`kpacktools.diffing.records`' record: the inventory's own, since there may be very many."""

    @property
    def name(self) -> str:
        """The name."""
        return name_of_record(self.record)

    @property
    def sha256(self) -> str:
        """Of its bytes, in hexadecimal."""
        return digest_of_record(self.record).hex()


class Changed(NamedTuple):
    """A kernel that both sides have under one name, with different bytes."""

    was: bytes
    """Record."""
    now: bytes

    @property
    def name(self) -> str:
        """The name."""
        return name_of_record(self.was)

    @property
    def old(self) -> str:
        """sha256 on the old side, in hexadecimal."""
        return digest_of_record(self.was).hex()

    @property
    def new(self) -> str:
        """sha256 on the new side, in hexadecimal."""
        return digest_of_record(self.now).hex()


class Renamed(NamedTuple):
    """A kernel that both sides have for one target, under different names."""

    was: bytes
    """Record."""
    now: bytes

    @property
    def old(self) -> str:
        """The old side's name."""
        return name_of_record(self.was)

    @property
    def new(self) -> str:
        """The new side's name."""
        return name_of_record(self.now)

    @property
    def sha256(self) -> str:
        """Of its bytes, in hexadecimal."""
        return digest_of_record(self.was).hex()


class Moved(NamedTuple):
    """A kernel that every device of its old key finds under other keys."""

    record: bytes
    keys: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name."""
        return name_of_record(self.record)

    @property
    def sha256(self) -> str:
        """Of its bytes, in hexadecimal."""
        return digest_of_record(self.record).hex()


class Amount(Struct, frozen=True):
    """What one side holds of an engine for a target key."""

    kernels: int
    files: int
    size: int
    """Bytes, as stored."""
    lanes: tuple[str, ...]
    compilers: tuple[str, ...]


class Cell(Struct, frozen=True):
    """One engine and target key, on both sides."""

    engine: str
    key: str
    old: Amount | None
    """None where that side has no such bundle."""
    new: Amount | None
    lost: tuple[Kernel, ...] = ()
    gained: tuple[Kernel, ...] = ()
    changed: tuple[Changed, ...] = ()
    renamed: tuple[Renamed, ...] = ()
    moved: tuple[Moved, ...] = ()
    """Kernels of this key's old side that are kept under other keys."""
    arrived: int = 0
    """Kernels of the new side that other keys' old side had."""
    uncounted: int = 0
    """New kernels less old ones, where a side gives no names."""

    @property
    def kernels_lost(self) -> int:
        """How many kernels are lost; where there are no names, by how many there are fewer."""
        return len(self.lost) + max(-self.uncounted, 0)

    @property
    def kernels_gained(self) -> int:
        """How many kernels are gained; where there are no names, by how many there are more."""
        return len(self.gained) + max(self.uncounted, 0)

    @property
    def is_lost(self) -> bool:
        """The old side has a bundle, the new side has none, and its kernels are under no other key."""
        return self.old is not None and self.new is None and not self.moved

    @property
    def lanes_differ(self) -> bool:
        """Both sides have the bundle, on other lanes, as far as both tell."""
        if self.old is None or self.new is None or not (self.old.lanes and self.new.lanes):
            return False
        return self.old.lanes != self.new.lanes

    @property
    def compilers_differ(self) -> bool:
        """Both sides have the bundle, built by other compilers, as far as both tell."""
        if self.old is None or self.new is None or not (self.old.compilers and self.new.compilers):
            return False
        return self.old.compilers != self.new.compilers

    @property
    def names_kernels(self) -> bool:
        """True where at least one kernel is named."""
        return bool(self.lost or self.gained or self.changed or self.renamed or self.moved)

    @property
    def is_equal(self) -> bool:
        """Nothing differs, but for sizes and other files than kernels."""
        differs = self.names_kernels or self.arrived or self.uncounted or self.lanes_differ
        return (self.old is None) == (self.new is None) and not (differs or self.compilers_differ)


class Move(Struct, frozen=True):
    """Bundles of one engine that went under other keys."""

    kind: MoveKind
    engine: str
    old: tuple[str, ...]
    """Keys."""
    new: tuple[str, ...]
    kernels: int


class DistributionChange(Struct, frozen=True):
    """A distribution whose wheels differ in version or requirements."""

    name: str
    old: tuple[str, ...] | None
    """Versions; None where that side has no such distribution."""
    new: tuple[str, ...] | None
    added: tuple[str, ...] = ()
    """Requirements."""
    removed: tuple[str, ...] = ()


class Difference(Struct, frozen=True):
    """Everything in which two sets differ."""

    old: tuple[str, ...]
    """Paths."""
    new: tuple[str, ...]
    by_content: bool
    """Kernels were compared by their bytes; else only counted."""
    cells: tuple[Cell, ...]
    """Every engine and key of either side, equal ones too."""
    moves: tuple[Move, ...] = ()
    distributions: tuple[DistributionChange, ...] = ()
    findings: tuple[Finding, ...] = ()
    """Errors that keep content out of the comparison."""

    @property
    def lost(self) -> bool:
        """True where the new side lacks a kernel, a bundle or a distribution of the old one."""
        return any(cell.kernels_lost or cell.is_lost for cell in self.cells) or any(
            item.new is None for item in self.distributions
        )

    @property
    def is_equal(self) -> bool:
        """True where both sides hold the same."""
        return all(cell.is_equal for cell in self.cells) and not (self.distributions or self.findings)

    def sizes(self) -> Mapping[str, tuple[int, int]]:
        """Engine -> bytes of all files, as stored: old, new."""
        engines: dict[str, tuple[int, int]] = {}
        for cell in self.cells:
            old, new = engines.get(cell.engine, (0, 0))
            old += cell.old.size if cell.old else 0
            new += cell.new.size if cell.new else 0
            engines[cell.engine] = (old, new)
        return dict(sorted(engines.items()))
