"""``kpacktools lock write|check`` as functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from kpacktools.diffing.inventory import take_inventory
from kpacktools.errors import CallError
from kpacktools.findings import Finding
from kpacktools.hookspecs import Depth
from kpacktools.lanes import default_lanes
from kpacktools.locking.check import LockCheck, check_lock
from kpacktools.locking.lockfile import as_toml, check_aliases, read_lock
from kpacktools.locking.model import Lock, baselines_of
from kpacktools.outputs.textfile import write_text
from kpacktools.pipeline import Settings
from kpacktools.trees.places import place_of, shown

__all__ = ["check", "write"]


def write(
    paths: Sequence[str],
    out: str,
    settings: Settings,
    aliases: Mapping[str, str] | None = None,
    *,
    with_names: bool = True,
) -> tuple[Lock, tuple[Finding, ...]]:
    """Write the lock of what ``inspect`` would find below some paths; the aliases of a lock that is there are kept.

    Returns it, and the errors that keep content out of it: where there are any, nothing is written. Raises
    :class:`~kpacktools.errors.CallError` for a path, a lock or an alias that is unusable.
    """
    lanes = default_lanes()
    places, place = place_of(out)
    kept = read_lock(out, lanes).aliases if places.exists(place) else {}
    combined = {**kept, **(aliases or {})}
    check_aliases(combined, lanes)
    inventory, _ = take_inventory("lock", paths, replace(settings, depth=Depth.CONTENT))
    lock = Lock(baselines_of(inventory, combined, with_names=with_names), combined)
    if inventory.findings:
        return lock, inventory.findings
    if not lock.baselines:
        raise CallError(f"{', '.join(map(shown, paths))}: no engine content, so there is nothing to lock")
    write_text(out, as_toml(lock))
    return lock, ()


def check(paths: Sequence[str], lock_path: str, settings: Settings) -> LockCheck:
    """Hold what ``inspect`` would find below some paths to a lock.

    Raises :class:`~kpacktools.errors.CallError` for a path or a lock that is unusable.
    """
    lock = read_lock(lock_path, default_lanes())
    for item in lock.baselines:
        if item.lane is not None and item.lane in lock.aliases:
            raise CallError(
                f"{shown(lock_path)}: {item} is locked, and {item.lane} is an alias of {lock.aliases[item.lane]}: "
                "remove the alias, or write the lock again"
            )
    inventory, _ = take_inventory("lock", paths, replace(settings, depth=Depth.CONTENT))
    return check_lock(lock, baselines_of(inventory, lock.aliases, with_names=True), inventory.findings)
