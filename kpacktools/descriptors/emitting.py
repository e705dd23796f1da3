"""The descriptor that captures exactly the files that are there.

Which component a file belongs to is given; what is found here is the patterns that say so. Without ``exact`` they are
the component's own, folders of engine content with the target left open, whole folders, and single files, in this
order; no pattern takes a file of a later component.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from kpacktools.descriptors.capture import capture, split_archive_patterns
from kpacktools.descriptors.model import COMPONENTS, DEFAULT_INCLUDES, Component, Descriptor, StageRules
from kpacktools.findings import Finding, finding
from kpacktools.patterns import matcher

__all__ = ["Places", "default_component", "describe", "open_targets"]

Places = Mapping[str, tuple[str, ...]]
"""File of engine content -> patterns that leave its target open, the widest first."""

_ENGINE_CONTAINERS: Final = ("arch_content", "test_arch_content")
_PROGRAMS: Final = ("bin", "libexec", "sbin")
_TARGET: Final = re.compile(r"gfx[^._]*")
_WILD: Final = re.compile(r"[*?]+")
_CONTROL: Final = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")
_OWN: Final = {name: matcher(patterns) for name, patterns in DEFAULT_INCLUDES.items()}


def default_component(artifact: str, path: str, *, engine_content: bool) -> str:
    """The component that a file of a build tree goes to, by its path below the stage directory.

    Engine content goes to lib, its ``test_arch_content`` to test; the others go to the first component whose own
    patterns match, what is left to run below ``bin``, ``libexec`` and ``sbin``, and to lib.
    """
    parts = path.split("/")
    if parts[0] == ".kpack":
        for name in COMPONENTS:
            if matcher(split_archive_patterns(artifact, name))(path):
                return name
    if engine_content:
        return "test" if "test_arch_content" in parts else "lib"
    for name in COMPONENTS:
        if _OWN[name](path):
            return name
    return "run" if parts[0] in _PROGRAMS else "lib"


def open_targets(path: str, root: str | None) -> tuple[str, ...]:
    """The patterns for a file of engine content that leave its target open, the widest first.

    ``root`` is the folder named after the target; None where the file's own name spells it.

    >>> open_targets("lib/hipdnn_plugins/engines/arch_content/rocke/gfx942/a.kpack",
    ...              "lib/hipdnn_plugins/engines/arch_content/rocke/gfx942")
    ('**/engines/arch_content/**', 'lib/hipdnn_plugins/engines/arch_content/rocke/*/**')
    """
    found = []
    parts = path.split("/")
    for container in _ENGINE_CONTAINERS:
        if container in parts[:-1]:
            above = parts[parts.index(container) - 1] if parts.index(container) else ""
            found.append(f"**/engines/{container}/**" if above == "engines" else f"**/{container}/**")
    if root is not None:
        outer = root.rpartition("/")[0]
        found.append(_literal(f"{outer}/" if outer else "") + "*/**")
    else:
        folder, _, name = path.rpartition("/")
        found.append(_literal(f"{folder}/" if folder else "") + _WILD.sub("*", _TARGET.sub("gfx*", name)))
    return tuple(found)


def describe(
    artifact: str,
    components: Mapping[str, Mapping[str, str]],
    places: Mapping[str, Places],
    *,
    exact: bool = False,
) -> tuple[Descriptor, tuple[Finding, ...]]:
    """The descriptor of an artifact's files, and errors where no descriptor can capture them exactly.

    ``components`` is stage directory -> file -> component, ``places`` stage directory -> engine content. ``exact``
    lists every file and takes nothing else on any tree.

    Errors: ``bad-path`` (control characters, bytes that are not UTF-8), ``descriptor-invalid`` (unknown components),
    ``descriptor-overlap`` (one path in two stage directories, of which TheRock's tool keeps only the first) and
    ``descriptor-uncaptured`` (names that hold wildcard characters and cannot be told from others).
    """
    found = [
        *_bad_paths(components),
        *_unknown_components(artifact, components),
        *_shared_paths(components),
    ]
    stages: dict[str, dict[str, StageRules]] = {name: {} for name in COMPONENTS}
    for stage, files in sorted(components.items()):
        for name, rules in _rules_of_stage(artifact, files, places.get(stage, {}), exact=exact):
            stages[name][stage] = rules
    descriptor = Descriptor(
        artifact, f"artifact-{artifact}.toml", {name: Component(name, stages[name]) for name in COMPONENTS}
    )
    if not found:
        found += _not_captured(descriptor, components)
    return descriptor, tuple(found)


def _rules_of_stage(
    artifact: str, files: Mapping[str, str], places: Places, *, exact: bool
) -> Iterator[tuple[str, StageRules]]:
    remaining = sorted(files)
    for name in COMPONENTS:
        mine = [path for path in remaining if files[path] == name]
        others = [path for path in remaining if files[path] != name]
        if mine:
            forced = matcher(split_archive_patterns(artifact, name))
            if exact:
                yield name, StageRules(include=_literals(mine), default_patterns=False)
            else:
                yield name, _Search(name, mine, others, places, forced).rules()
        remaining = others


class _Search(Struct, frozen=True):
    """The patterns of one component for one stage directory."""

    component: str
    mine: Sequence[str]
    others: Sequence[str]
    """Files of later components: what no pattern may take."""
    places: Places
    forced: Callable[[str], bool]
    """What is taken without being told."""

    def rules(self) -> StageRules:
        """Rules that take all of ``mine`` and none of ``others``."""
        own = DEFAULT_INCLUDES[self.component]
        default_patterns = bool(own) and self._is_free(own)
        covered = {
            path
            for path in self.mine
            if self.forced(path) or (default_patterns and _OWN[self.component](path))
        }
        include: list[str] = []
        free: dict[str, bool] = {}
        for path in self.mine:
            for pattern in self.places.get(path, ()):
                if path in covered:
                    break
                if pattern not in free:
                    free[pattern] = self._is_free([pattern])
                if free[pattern]:
                    include.append(pattern)
                    takes = matcher([pattern])
                    covered |= {other for other in self.mine if takes(other)}
        left = [path for path in self.mine if path not in covered]
        if not (left or include or default_patterns):
            left = list(self.mine)  # without any pattern a component would take everything
        include += _folders_or_files(left, {*self.others, *self.mine} - set(left), self._is_free)
        return StageRules(include=tuple(sorted(set(include))), default_patterns=default_patterns or not own)

    def _is_free(self, patterns: Iterable[str]) -> bool:
        """True where patterns take no file of a later component."""
        return not any(map(matcher(patterns), self.others))


def _folders_or_files(
    files: Sequence[str], others: Collection[str], is_free: Callable[[list[str]], bool]
) -> Iterator[str]:
    """``folder/**`` for the innermost folders that hold several of the files together and nothing else, and the other
    files by their own names."""
    foreign = {folder for path in others for folder in _above(path)}
    inside: dict[str, list[str]] = {}
    for path in files:
        outermost = next((folder for folder in _above(path) if folder not in foreign), None)
        inside.setdefault(path if outermost is None else outermost, []).append(path)
    for held in inside.values():
        common = _common_folder(held) if len(held) > 1 else ""
        pattern = _literal(common) + "/**"
        if common and is_free([pattern]):
            yield pattern
        else:
            yield from _literals(held)


def _above(path: str) -> Iterator[str]:
    """The folders above a path, the outermost first."""
    position = path.find("/")
    while position != -1:
        yield path[:position]
        position = path.find("/", position + 1)


def _common_folder(paths: Sequence[str]) -> str:
    """The innermost folder that holds all of some sorted paths."""
    first, last = paths[0].split("/")[:-1], paths[-1].split("/")[:-1]
    common = []
    for left, right in zip(first, last, strict=False):
        if left != right:
            break
        common.append(left)
    return "/".join(common)


def _literal(path: str) -> str:
    """The pattern for one path. Ant cannot quote a wildcard, and TheRock's matcher reads ``?`` otherwise: a ``*``
    stands for either, and :func:`_not_captured` sees to it that it takes nothing else."""
    return _WILD.sub("*", path)


def _literals(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(_literal, paths)))


def _bad_paths(components: Mapping[str, Mapping[str, str]]) -> Iterator[Finding]:
    for stage, files in components.items():
        for path in files:
            whole = f"{stage}/{path}"
            if _CONTROL.search(whole):
                yield finding(
                    "bad-path",
                    whole.encode("unicode_escape").decode("ascii"),
                    "holds a control character or bytes that are not UTF-8, which no descriptor can spell",
                    "rename it",
                )


def _unknown_components(artifact: str, components: Mapping[str, Mapping[str, str]]) -> Iterator[Finding]:
    names = {name for files in components.values() for name in files.values()}
    for name in sorted(names.difference(COMPONENTS)):
        yield finding(
            "descriptor-invalid",
            f"{artifact}_{name}",
            f"{name!r} is no component of a descriptor",
            f"components are {', '.join(COMPONENTS)}",
        )


def _shared_paths(components: Mapping[str, Mapping[str, str]]) -> Iterator[Finding]:
    """Paths that two stage directories have, as files or as a file here and a folder there."""
    first: dict[str, str] = {}
    folders: dict[str, str] = {}
    for stage, files in sorted(components.items()):
        for path in files:
            for folder in _above(path):
                folders.setdefault(folder, stage)
    for stage, files in sorted(components.items()):
        for path in sorted(files):
            other = first.setdefault(path, stage)
            if other == stage:
                other = folders.get(path, stage)
            if other != stage:
                yield finding(
                    "descriptor-overlap",
                    path,
                    f"is in the stage directories {other} and {stage}; TheRock's fileset_tool would keep only one",
                    "leave it out of one of them",
                    sources=(other, stage),
                )


def _not_captured(descriptor: Descriptor, components: Mapping[str, Mapping[str, str]]) -> Iterator[Finding]:
    result = capture(descriptor, {stage: sorted(files) for stage, files in components.items()})
    for stage, files in components.items():
        for path, wanted in files.items():
            got = result.taken.get(stage, {}).get(path, ())
            if got != (wanted,):
                yield finding(
                    "descriptor-uncaptured",
                    f"{stage}/{path}",
                    f"belongs to {wanted}, and no pattern tells it from the files of {', '.join(got) or 'others'}",
                    "rename it: a pattern cannot quote '*' and '?'",
                )
