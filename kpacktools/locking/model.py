"""What a lock says, and how its digests come about."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct, field

from kpacktools.diffing.inventory import Inventory
from kpacktools.diffing.records import digest_of_record, name_of_record

__all__ = ["Baseline", "Lock", "LockedKernel", "baselines_of", "digest_of_records"]

_PREFIX: Final = 12
"""Hexadecimal digits of a kernel's sha256 that a lock shows. The digest decides; these only name what changed."""


class LockedKernel(Struct, frozen=True, order=True):
    """One kernel of a baseline."""

    name: str
    prefix: str
    """The first 12 hexadecimal digits of its sha256."""

    def __str__(self) -> str:
        return f"{self.name} {self.prefix}"


class Baseline(Struct, frozen=True):
    """What a release holds of one engine for one target key on one lane."""

    engine: str
    key: str
    lane: str | None
    """None where nothing says, or the code objects disagree."""
    kernels: int
    digest: str
    """:func:`digest_of_records`, in hexadecimal."""
    names: tuple[LockedKernel, ...] | None = None
    """Sorted; None where the lock leaves names out."""

    @property
    def place(self) -> tuple[str, str, str]:
        """What identifies a baseline, in the order of a lock."""
        return self.engine, self.key, self.lane or ""

    def __str__(self) -> str:
        return f"{self.engine} {self.key} on {self.lane or 'no certain lane'}"


class Lock(Struct, frozen=True):
    """A lock file's content."""

    baselines: tuple[Baseline, ...]
    """Sorted by place."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Lane -> the lane whose baselines it is held to."""


def digest_of_records(records: Iterable[bytes]) -> str:
    """One digest of many kernels, whatever archives they lie in: the sha256, in hexadecimal, of the lines
    ``<name> NUL <sha256 in lower-case hexadecimal> LF`` of all kernels, sorted bytewise, each line once.

    >>> digest_of_records([]) == hashlib.sha256().hexdigest()
    True
    """
    digest = hashlib.sha256()
    # Records sort as their lines do: a name, NUL, and the same digits in a denser spelling.
    for item in sorted(records):
        digest.update(item[:-32] + digest_of_record(item).hex().encode() + b"\n")
    return digest.hexdigest()


def baselines_of(
    inventory: Inventory, aliases: Mapping[str, str], *, with_names: bool
) -> tuple[Baseline, ...]:
    """What an inventory that was taken by content holds, a lane with an alias under the lane that it stands for."""
    records: dict[tuple[str, str, str], frozenset[bytes]] = {}
    for holding in inventory.holdings:
        assert holding.records is not None
        lane = holding.lane or ""
        place = (holding.engine, holding.key, aliases.get(lane, lane))
        records[place] = records.get(place, frozenset()) | holding.records
    return tuple(
        Baseline(
            engine,
            key,
            lane or None,
            len(held),
            digest_of_records(held),
            tuple(sorted(map(_locked, held))) if with_names else None,
        )
        for (engine, key, lane), held in sorted(records.items())
    )


def _locked(item: bytes) -> LockedKernel:
    return LockedKernel(name_of_record(item), digest_of_record(item).hex()[:_PREFIX])
