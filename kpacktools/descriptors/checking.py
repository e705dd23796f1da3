"""What is wrong with descriptors, by themselves and on the files that are there."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from kpacktools.descriptors.capture import Capture, capture
from kpacktools.descriptors.dialect import therock_pattern
from kpacktools.descriptors.model import COMPONENTS, Component, Descriptor
from kpacktools.descriptors.staged import Staged
from kpacktools.findings import Finding, Severity, counted, finding
from kpacktools.patterns import matcher, matches, may_meet

__all__ = ["Applied", "apply_descriptor", "check_capture", "starved_components"]

_SHOWN: Final = 3
"""Paths that a message names before it counts the rest."""


class Applied(Struct, frozen=True):
    """A descriptor and what it takes of some stage directories."""

    descriptor: Descriptor
    staged: Staged
    capture: Capture

    def excused(self, stage: str) -> tuple[str, ...]:
        """The files of a stage directory that no component took and that ``[options]`` lets go."""
        must = matcher(self.descriptor.unmatched_include or ("**",))
        need_not = matcher(self.descriptor.unmatched_exclude)
        return tuple(path for path in self.capture.left[stage] if need_not(path) or not must(path))


def apply_descriptor(descriptor: Descriptor, staged: Staged) -> Applied:
    """Apply a descriptor to the files that are there."""
    return Applied(descriptor, staged, capture(descriptor, staged.stages))


def starved_components(descriptor: Descriptor) -> Iterator[Finding]:
    """``descriptor-invalid`` (a warning) for components that name a stage directory of which a component before
    them takes everything, because it gives no include pattern: ``run`` and ``test`` have none of their own."""
    for stage in descriptor.stages():
        for name, component in descriptor.components.items():
            if stage not in component.stages or component.includes(stage):
                continue
            starved = [
                other.name
                for other in descriptor.components.values()
                if stage in other.stages
                and name in descriptor.before(other.name)
                and not _leaves(component, other, stage)
            ]
            if starved:
                yield finding(
                    "descriptor-invalid",
                    descriptor.path,
                    f"components.{name}.{stage!r} gives no include pattern and so takes everything that is left; "
                    f"nothing remains for {_listed(starved)}",
                    f"give {name} include patterns such as 'bin/**', or take the stage directory out of it",
                    severity=Severity.WARNING,
                )


def _leaves(greedy: Component, other: Component, stage: str) -> bool:
    """Whether a component that takes everything but its excludes may leave something that ``other`` wants."""
    wanted = (*other.includes(stage), *other.stages[stage].force_include) or ("**",)
    return any(may_meet(left, want) for left in greedy.stages[stage].exclude for want in wanted)


def check_capture(applied: Applied, platform: str) -> Iterator[Finding]:
    """What is wrong with one descriptor on the files that are there.

    ``descriptor-uncaptured`` (files that no component takes, or another than the one whose artifact directory
    holds them), ``descriptor-overlap`` (files that two components take) and ``descriptor-invalid``: stage directories
    that are missing and not optional on ``platform`` (errors), patterns that TheRock's matcher reads otherwise here
    (warnings), and patterns that match no file (infos: descriptors serve several platforms and configurations).
    """
    descriptor, staged = applied.descriptor, applied.staged
    yield from _missing_stages(descriptor, staged, platform)
    for stage in descriptor.stages():
        files = staged.stages.get(stage)
        if files is not None:
            yield from _check_patterns(descriptor, staged, stage, files)
            yield from _uncaptured(applied, stage)
    yield from _unnamed_stages(descriptor, staged)
    for path in staged.outside:
        yield finding(
            "descriptor-uncaptured",
            path,
            "lies below no stage prefix of its artifact directory",
            "add its stage prefix to artifact_manifest.txt, or move the file below one",
        )


def _missing_stages(descriptor: Descriptor, staged: Staged, platform: str) -> Iterator[Finding]:
    for stage in descriptor.stages():
        if stage in staged.stages:
            continue
        demanding = [
            name
            for name, component in descriptor.components.items()
            if stage in component.stages
            and (staged.present is None or name in staged.present)
            and not component.stages[stage].may_be_missing(platform)
        ]
        if demanding:
            yield finding(
                "descriptor-invalid",
                descriptor.path,
                f"the stage directory {stage} is not in {staged.where}, and it is not optional for "
                f"{_listed(demanding)}",
                f'build it, or mark it optional = true (or optional = "{platform}")',
            )


def _unnamed_stages(descriptor: Descriptor, staged: Staged) -> Iterator[Finding]:
    """Stage prefixes of the artifact's own directories that hold files and that no component names."""
    if staged.components is None:
        return
    for stage in sorted(staged.stages.keys() - set(descriptor.stages())):
        if staged.stages[stage]:
            yield finding(
                "descriptor-uncaptured",
                os.path.join(staged.where, f"{descriptor.artifact}_*", stage),
                f"no component of {descriptor.path} names this stage directory, which holds "
                f"{counted(len(staged.stages[stage]), 'file')}",
                f'add [components.<component>."{stage}"]',
            )


def _check_patterns(
    descriptor: Descriptor, staged: Staged, stage: str, files: Sequence[str]
) -> Iterator[Finding]:
    names = frozenset(files)
    for name, component in descriptor.components.items():
        if stage not in component.stages or (staged.present is not None and name not in staged.present):
            continue
        for key, pattern in component.stages[stage].patterns():
            if pattern in names and "?" not in pattern:
                continue  # a file's own name, of which a descriptor may list many thousand
            where = f"components.{name}.{stage!r}.{key}"
            takes = matcher([pattern])
            if not any(map(takes, files)):
                yield finding(
                    "descriptor-invalid",
                    descriptor.path,
                    f"{where}: the pattern {pattern!r} matches no file of {os.path.join(staged.where, stage)}",
                    severity=Severity.INFO,
                )
            yield from _read_otherwise(descriptor.path, where, pattern, files)


def _read_otherwise(path: str, where: str, pattern: str, files: Sequence[str]) -> Iterator[Finding]:
    """Patterns that TheRock's matcher takes for something else than Ant does."""
    theirs = therock_pattern(pattern)
    differing = [f for f in files if matches(pattern, f) != (theirs.match(f) is not None)]
    if not differing and "?" not in pattern:
        return
    if "?" in pattern:
        reading = "reads '?' as any number of characters, not as one"
    else:
        reading = f"reads {pattern!r} in its own way"
    on_these = f"; here it differs for {_listed(differing)}" if differing else ""
    yield finding(
        "descriptor-invalid",
        path,
        f"{where}: TheRock's matcher {reading} ({pattern!r}){on_these}",
        "write '*' within a component, '**/*' for everything, and 'folder/**' for a folder",
        severity=Severity.WARNING if differing else Severity.INFO,
    )


def _uncaptured(applied: Applied, stage: str) -> Iterator[Finding]:
    descriptor, staged, taken = applied.descriptor, applied.staged, applied.capture.taken[stage]
    naming = [name for name, component in descriptor.components.items() if stage in component.stages]
    excused = set(applied.excused(stage))
    for path in applied.capture.left[stage]:
        if path not in excused:
            yield finding(
                "descriptor-uncaptured",
                _shown_path(applied, stage, path),
                f"no component of {descriptor.path} takes it (named for its stage directory: {_listed(naming)})",
                "add a pattern to the component that it belongs to, or to [options] unmatched_exclude",
            )
    for path, owners in taken.items():
        if len(owners) > 1:
            yield finding(
                "descriptor-overlap",
                _shown_path(applied, stage, path),
                f"is taken by the components {_listed(owners)} of {descriptor.path}, whose 'extends' does not chain "
                "them",
                "leave 'extends' out: a component then leaves what the ones before it took",
            )
        if staged.components is not None:
            holding = staged.components[stage].get(path, ())
            if not set(holding) <= set(owners):
                yield finding(
                    "descriptor-uncaptured",
                    _shown_path(applied, stage, path),
                    f"lies in {descriptor.artifact}_{holding[0]}_*, but {descriptor.path} gives it to "
                    + _listed(owners),
                    f"make the patterns of {owners[0]} narrower, or build the artifact again",
                )


def _shown_path(applied: Applied, stage: str, path: str) -> str:
    """A file as the user would type it; for artifact directories without the target, which is one of many."""
    staged = applied.staged
    if staged.components is None:
        return os.path.join(staged.where, stage, path)
    component = staged.components[stage][path][0]
    return os.path.join(staged.where, f"{applied.descriptor.artifact}_{component}_*", stage, path)


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_SHOWN] if len(names) > len(COMPONENTS) else names)
    return shown + (f" and {len(names) - _SHOWN} more" if len(names) > len(COMPONENTS) else "")
