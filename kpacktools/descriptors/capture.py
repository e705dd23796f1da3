"""What a descriptor takes of the files that are there, by Ant's meaning of its patterns.

Each component takes what its patterns match of each of its stage directories and what no component before it in the
chain took. :mod:`.checking` reports where TheRock's matcher reads a descriptor otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from kpacktools.descriptors.model import COMPONENTS, Component, Descriptor
from kpacktools.patterns import matcher

__all__ = ["Capture", "capture", "split_archive_patterns"]


class Capture(Struct, frozen=True):
    """Which components took which files."""

    taken: Mapping[str, Mapping[str, tuple[str, ...]]]
    """Stage directory -> file (relative to it) -> the components that took it: one, unless ``extends`` breaks the
    chain."""
    left: Mapping[str, tuple[str, ...]]
    """Stage directory -> the files that no component took."""


def capture(descriptor: Descriptor, stages: Mapping[str, Sequence[str]]) -> Capture:
    """Apply a descriptor to stage directories and their files, given as paths relative to them.

    Stage directories that the descriptor does not name are left out of the result.
    """
    taken: dict[str, dict[str, tuple[str, ...]]] = {}
    left: dict[str, tuple[str, ...]] = {}
    order = descriptor.order()
    before = {name: descriptor.before(name) for name in COMPONENTS}
    for stage in descriptor.stages():
        files = stages.get(stage, ())
        wanted = {
            name: _takes(descriptor.components[name], stage, descriptor.artifact)
            for name in order
            if stage in descriptor.components[name].stages
        }
        owners: dict[str, tuple[str, ...]] = {}
        for path in files:
            mine: tuple[str, ...] = ()
            for name, takes in wanted.items():
                if before[name].isdisjoint(mine) and takes(path):
                    mine += (name,)
            if mine:
                owners[path] = mine
        taken[stage] = owners
        left[stage] = tuple(path for path in files if path not in owners)
    return Capture(taken, left)


def split_archive_patterns(artifact: str, component: str) -> tuple[str, ...]:
    """What every component takes without being told: the archives that rocm_kpack split off its own host files
    (``.kpack/<name>_<component>_<target>.kpack``)."""
    stem = f".kpack/{artifact}_{component}"
    return (f"{stem}.kpm", f"{stem}_*.kpack")


def _takes(component: Component, stage: str, artifact: str) -> Callable[[str], bool]:
    """What one component takes of one stage directory, the chain left aside."""
    rules = component.stages[stage]
    forced = matcher((*rules.force_include, *split_archive_patterns(artifact, component.name)))
    excluded = matcher(rules.exclude)
    includes = component.includes(stage)
    included = matcher(includes or ("**",))  # without a pattern a component takes everything
    return lambda path: forced(path) or (included(path) and not excluded(path))
