"""Holding what a set contains to a lock."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from kpacktools.findings import Finding
from kpacktools.locking.model import Baseline, Lock, LockedKernel

__all__ = ["Deviation", "LockCheck", "State", "check_lock"]

State = Literal["missing", "new", "changed"]


class Deviation(Struct, frozen=True):
    """One engine and target on one lane that is not as the lock says."""

    state: State
    """``missing``: only the lock has it; ``new``: the lock lacks it; ``changed``: their digests differ."""
    locked: Baseline | None
    found: Baseline | None
    missing: tuple[str, ...] = ()
    """Kernels by name; empty where the lock leaves names out."""
    new: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()

    @property
    def baseline(self) -> Baseline:
        """Whichever side there is, for engine, key and lane."""
        baseline = self.found if self.locked is None else self.locked
        assert baseline is not None
        return baseline


class LockCheck(Struct, frozen=True):
    """What a check against a lock found."""

    deviations: tuple[Deviation, ...]
    """Sorted by engine, key and lane."""
    bundles: int
    """Baselines that are as the lock says."""
    kernels: int
    """Their kernels."""
    findings: tuple[Finding, ...] = ()
    """Errors that keep content out of the check."""

    @property
    def ok(self) -> bool:
        """True where everything is as the lock says, and everything was read."""
        return not (self.deviations or self.findings)


def check_lock(lock: Lock, found: Sequence[Baseline], findings: tuple[Finding, ...] = ()) -> LockCheck:
    """Compare what was found, with names, with a lock; the digests decide."""
    locked = {item.place: item for item in lock.baselines}
    there = {item.place: item for item in found}
    deviations = []
    same = []
    for place in sorted({*locked, *there}):
        was, now = locked.get(place), there.get(place)
        if was is not None and now is not None and (was.digest, was.kernels) == (now.digest, now.kernels):
            same.append(now)
        else:
            deviations.append(_deviation(was, now))
    return LockCheck(tuple(deviations), len(same), sum(item.kernels for item in same), findings)


def _deviation(was: Baseline | None, now: Baseline | None) -> Deviation:
    state: State = "new" if was is None else "missing" if now is None else "changed"
    if (was is not None and was.names is None) or (now is not None and now.names is None):
        return Deviation(state, was, now)
    before = frozenset(was.names or ()) if was else frozenset()
    after = frozenset(now.names or ()) if now else frozenset()
    lost, gained = _names(before - after), _names(after - before)
    return Deviation(
        state,
        was,
        now,
        missing=tuple(sorted(lost - gained)),
        new=tuple(sorted(gained - lost)),
        changed=tuple(sorted(lost & gained)),
    )


def _names(kernels: frozenset[LockedKernel]) -> set[str]:
    return {kernel.name for kernel in kernels}
