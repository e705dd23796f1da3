"""The shards file: which shards there are, what each was built for, and which run made it. TOML::

[[shard]]
name = "gfx942"
path = "builds/gfx942"          # relative to the file; may be a URL
targets = ["gfx94X-dcgpu"]      # replaces what the artifact directories' suffixes say
run = "17334455"
"""

from __future__ import annotations

from msgspec import Struct

from kpacktools.errors import CallError
from kpacktools.targets import TargetTable, UnknownTargetError
from kpacktools.tomlfile import read_call_file
from kpacktools.trees.places import beside, shown

__all__ = ["ShardEntry", "read_shards_file"]


class ShardEntry(Struct, frozen=True):
    """One ``[[shard]]``."""

    path: str
    name: str | None = None
    targets: frozenset[str] | None = None
    """Part keys; None where the entry says nothing."""
    run: str | None = None
    is_listed: bool = False


def read_shards_file(path: str, targets: TargetTable) -> tuple[ShardEntry, ...]:
    """Read a shards file; paths in it are relative to its folder.

    Raises :class:`~kpacktools.errors.CallError` for a file that cannot be read or does not follow the schema, for
    a name that is given twice and for a target that nobody knows.
    """
    data = read_call_file("--shards", path, "shards")
    entries = []
    names: set[str] = set()
    for item in data["shard"]:
        name = item.get("name")
        if name in names:
            raise CallError(f"--shards {shown(path)}: two shards are named {name!r}")
        if name is not None:
            names.add(name)
        try:
            declared = [targets.suffix_targets(target) for target in item.get("targets", ())]
        except UnknownTargetError as error:
            raise CallError(f"--shards {shown(path)}: shard {name or item['path']}: {error}") from None
        entries.append(
            ShardEntry(
                path=beside(path, item["path"]),
                name=name,
                targets=frozenset().union(*declared) if "targets" in item else None,
                run=None if item.get("run") is None else str(item["run"]),
                is_listed=True,
            )
        )
    return tuple(entries)
