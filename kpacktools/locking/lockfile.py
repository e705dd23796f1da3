"""Reading and writing ``kpack.lock``: TOML, ``kpacktools.lock/v1``, unknown keys rejected."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Final

import tomli_w

from kpacktools.errors import CallError
from kpacktools.lanes import LaneTable
from kpacktools.locking.model import Baseline, Lock, LockedKernel
from kpacktools.tomlfile import read_valid
from kpacktools.trees.places import shown

__all__ = ["SCHEMA", "as_toml", "check_aliases", "read_lock"]

SCHEMA: Final = "kpacktools.lock/v1"
_HEADER: Final = """\
# The kernels of a release, by engine, target and compiler lane. Written by `kpacktools lock write`, held against a
# build by `kpacktools lock check`. Do not edit by hand, but for [lanes.NAME] alias = "OTHER", which holds lane NAME to
# the baselines of lane OTHER; both must share an emission profile.
#
# digest: the sha256 of the lines "<name> NUL <sha256> LF" of all kernels, sorted; each sha256 is that of the
# decompressed code object. names: each kernel with the first 12 digits of its sha256.

"""


def as_toml(lock: Lock) -> str:
    """The lock as text: the same lock is the same text."""
    document: dict[str, Any] = {"schema": SCHEMA}
    if lock.aliases:
        document["lanes"] = {lane: {"alias": other} for lane, other in sorted(lock.aliases.items())}
    document["bundle"] = [_table(item) for item in lock.baselines]
    return _HEADER + tomli_w.dumps(document)


def _table(item: Baseline) -> dict[str, Any]:
    return {
        "engine": item.engine,
        "key": item.key,
        **({} if item.lane is None else {"lane": item.lane}),
        "kernels": item.kernels,
        "digest": f"sha256:{item.digest}",
        **({} if item.names is None else {"names": [str(kernel) for kernel in item.names]}),
    }


def read_lock(path: str, lanes: LaneTable) -> Lock:
    """Read a lock.

    Raises :class:`~kpacktools.errors.CallError` for a file that cannot be read, is not TOML, does not follow the
    schema (``kpacktools/manifests/lock.schema.json``), contradicts itself, or holds an alias that ``lanes`` do not
    support.
    """
    label = shown(path)
    data = read_valid(label, path, "lock")
    path = label
    baselines = tuple(sorted(map(_baseline, data["bundle"]), key=lambda item: item.place))
    for first, second in pairwise(baselines):
        if first.place == second.place:
            raise CallError(f"{path}: {first} is there twice; write the lock again")
    for item in baselines:
        if item.names is not None and len(item.names) != item.kernels:
            raise CallError(f"{path}: {item}: kernels = {item.kernels}, and {len(item.names)} are named")
    aliases = {lane: table["alias"] for lane, table in data.get("lanes", {}).items()}
    try:
        check_aliases(aliases, lanes)
    except CallError as error:
        raise CallError(f"{path}: {error}") from None
    return Lock(baselines, aliases)


def check_aliases(aliases: Mapping[str, str], lanes: LaneTable) -> None:
    """See that each alias is one that the lane registry supports: of a lane of the same emission profile, which is
    no alias itself.

    Raises :class:`~kpacktools.errors.CallError`.
    """
    for name, other in sorted(aliases.items()):
        lane, base = lanes.by_name(name), lanes.by_name(other)
        if lane is None or base is None:
            unknown = name if lane is None else other
            raise CallError(f"lane {name}, alias {other}: no such lane: {unknown}; known: {lanes.names}")
        if lane == base or other in aliases:
            raise CallError(f"lane {name}, alias {other}: expected another lane that is no alias itself")
        if lane.profile != base.profile:
            raise CallError(
                f"lane {name}, alias {other}: they share no emission profile ({name}: {lane.profile}, {other}: "
                f"{base.profile}), so that one's kernels say nothing about the other's"
            )


def _baseline(table: Mapping[str, Any]) -> Baseline:
    names = table.get("names")
    return Baseline(
        table["engine"],
        table["key"],
        table.get("lane"),
        table["kernels"],
        table["digest"].removeprefix("sha256:"),
        None if names is None else tuple(sorted(map(_kernel, names))),
    )


def _kernel(text: str) -> LockedKernel:
    name, _, prefix = text.rpartition(" ")
    return LockedKernel(name, prefix)
