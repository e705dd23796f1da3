"""The descriptor of one artifact, read from ``artifact-<name>.toml``. TOML::

    [components.lib."ml-libs/hipkernelprovider/stage"]     # component, stage directory
    include = ["**/engines/arch_content/**"]               # Ant patterns, added to the component's own
    exclude = "lib/*.a"                                    # one pattern or a list
    force_include = []                                     # taken even where exclude matches
    default_patterns = true                                # false leaves the component's own patterns out
    optional = ["windows"]                                 # the directory may be missing: there, or (true) anywhere

    [components.test]
    extends = ["lib"]                                      # leaves what lib took to lib; default: the chain

    [options]
    unmatched_exclude = ["share/locale/**"]                # need not be captured

Source of the format: ROCm/TheRock, ``docs/development/artifacts.md`` and ``artifact_builder.py``.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import Struct, field

from kpacktools.errors import CallError
from kpacktools.findings import Finding, Severity, finding
from kpacktools.tomlfile import read_toml, strings
from kpacktools.trees.places import basename, shown

__all__ = [
    "ARTIFACT_NAME",
    "COMPONENTS",
    "DEFAULT_INCLUDES",
    "PLATFORMS",
    "Component",
    "Descriptor",
    "StageRules",
    "name_of",
    "read_descriptor",
]

COMPONENTS: Final = ("lib", "run", "dbg", "dev", "doc", "test")
"""The chain: a file belongs to the first component that takes it."""

DEFAULT_INCLUDES: Final[Mapping[str, tuple[str, ...]]] = {
    "lib": ("**/*.dll", "**/*.dylib", "**/*.dylib.*", "**/*.so", "**/*.so.*"),
    "run": (),
    "dbg": (".build-id/**/*.debug",),
    "dev": (
        "**/*.a",
        "**/*.lib",
        "**/cmake/**",
        "**/include/**",
        "**/share/modulefiles/**",
        "**/pkgconfig/**",
    ),
    "doc": ("**/share/doc/**",),
    "test": (),
}
"""What a component takes of each of its stage directories unless ``default_patterns`` is false."""

PLATFORMS: Final = ("darwin", "linux", "windows")
"""What ``optional`` may name, in any case."""

ARTIFACT_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9-]*")
"""TheRock's rule for names of artifacts."""

_Report = Callable[..., None]
"""``report(where, message, hint="", severity=None)`` adds a finding."""

_FILE_NAME: Final = re.compile(r"artifact[-_](?P<name>[A-Za-z][A-Za-z0-9-]*)\.toml")


class StageRules(Struct, frozen=True):
    """What one component takes of one stage directory."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    force_include: tuple[str, ...] = ()
    default_patterns: bool = True
    optional: bool | tuple[str, ...] = False
    """True, or the platforms (in lower case) on which the directory may be missing."""

    def may_be_missing(self, platform: str) -> bool:
        """Whether the directory is optional on a platform, such as ``linux``."""
        return self.optional if isinstance(self.optional, bool) else platform.lower() in self.optional

    def patterns(self) -> tuple[tuple[str, str], ...]:
        """(key, pattern) of every pattern that the descriptor itself gives."""
        lists = (("include", self.include), ("exclude", self.exclude), ("force_include", self.force_include))
        return tuple((key, pattern) for key, patterns in lists for pattern in patterns)


class Component(Struct, frozen=True):
    """One component's stage directories."""

    name: str
    stages: Mapping[str, StageRules] = field(default_factory=dict)
    extends: tuple[str, ...] | None = None
    """None for the chain's own."""

    def includes(self, stage: str) -> tuple[str, ...]:
        """All include patterns of a stage directory; empty where the component takes everything."""
        rules = self.stages[stage]
        return rules.include + (DEFAULT_INCLUDES[self.name] if rules.default_patterns else ())

    def leaves_to(self) -> tuple[str, ...]:
        """The components whose files this one leaves to them, before following theirs in turn."""
        if self.extends is not None:
            return self.extends
        position = COMPONENTS.index(self.name)
        return COMPONENTS[position - 1 : position] if position else ()


class Descriptor(Struct, frozen=True):
    """A descriptor with all six components, those that it does not name without stage directories."""

    artifact: str
    path: str
    components: Mapping[str, Component]
    unmatched_include: tuple[str, ...] = ()
    unmatched_exclude: tuple[str, ...] = ()

    def stages(self) -> tuple[str, ...]:
        """Every stage directory that some component names, sorted."""
        return tuple(sorted({stage for component in self.components.values() for stage in component.stages}))

    def before(self, name: str) -> frozenset[str]:
        """The components whose files the component ``name`` leaves to them, directly or through others."""
        found: set[str] = set()
        pending = list(self.components[name].leaves_to())
        while pending:
            other = pending.pop()
            if other not in found:
                found.add(other)
                pending += self.components[other].leaves_to()
        return frozenset(found)

    def order(self) -> tuple[str, ...]:
        """The components, each after those that it leaves files to."""
        return tuple(sorted(COMPONENTS, key=lambda name: (len(self.before(name)), COMPONENTS.index(name))))


def name_of(path: str) -> str | None:
    """The artifact that a descriptor's file name says it describes, if it says so.

    >>> name_of("ml-libs/artifact-miopen.toml"), name_of("base/artifact.toml")
    ('miopen', None)
    """
    match = _FILE_NAME.fullmatch(basename(path))
    return match["name"] if match else None


def read_descriptor(path: str, artifact: str | None = None) -> tuple[Descriptor | None, tuple[Finding, ...]]:
    """Read a descriptor and say what is wrong with it as ``descriptor-invalid``.

    What is wrong is left out of the result, so that the rest can be used; None stands for a file that is no
    TOML. ``artifact`` is the artifact's name where the file's does not say it.

    Raises :class:`~kpacktools.errors.CallError` where the file cannot be read, or nothing says which artifact it
    describes.
    """
    name = artifact or name_of(path)
    if name is None:
        raise CallError(
            f"{path}: its name is not artifact-NAME.toml; say which artifact it describes with --map NAME={path}"
        )
    data, findings = read_toml(path, "descriptor", "descriptor-invalid")
    if data is None:
        return None, findings
    descriptor, more = parse_descriptor(data, name, shown(path))
    return descriptor, findings + more


def parse_descriptor(
    data: Mapping[str, Any], artifact: str, path: str
) -> tuple[Descriptor, tuple[Finding, ...]]:
    """A descriptor out of decoded TOML, with findings for what the schema cannot express."""
    found: list[Finding] = []

    def report(where: str, message: str, hint: str = "", severity: Severity | None = None) -> None:
        found.append(finding("descriptor-invalid", path, f"{where}: {message}", hint, severity=severity))

    tables = _table(data, "components")
    components = {name: _component(name, _table(tables, name), report) for name in COMPONENTS}
    options = _table(data, "options")
    descriptor = Descriptor(
        artifact,
        path,
        components,
        unmatched_include=strings(options.get("unmatched_include")),
        unmatched_exclude=strings(options.get("unmatched_exclude")),
    )
    if circle := [name for name in COMPONENTS if name in descriptor.before(name)]:
        report(f"components.{circle[0]}.extends", f"leads in a circle: {', '.join(circle)}")
        chained = {name: Component(name, component.stages) for name, component in components.items()}
        descriptor = Descriptor(
            artifact, path, chained, descriptor.unmatched_include, descriptor.unmatched_exclude
        )
    return descriptor, tuple(found)


def _table(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = data.get(key)
    return value if isinstance(value, Mapping) else {}


def _component(name: str, table: Mapping[str, Any], report: _Report) -> Component:
    stages = {}
    for key, value in table.items():
        if not isinstance(value, Mapping):
            continue
        where = f"components.{name}.{key!r}"
        if not _is_plain(key):
            report(where, "a stage directory is a plain path below the build tree, such as ml-libs/x/stage")
            continue
        stages[key] = _rules(where, value, report)
    if "extends" not in table:
        return Component(name, stages)
    extends = strings(table["extends"])
    for other in extends:
        if other not in COMPONENTS:
            near = difflib.get_close_matches(other, COMPONENTS, n=1)
            report(
                f"components.{name}.extends",
                f"unknown component {other!r}" + (f"; near: {near[0]}" if near else ""),
                f"components are {', '.join(COMPONENTS)}",
            )
    return Component(name, stages, tuple(other for other in extends if other in COMPONENTS))


def _rules(where: str, table: Mapping[str, Any], report: _Report) -> StageRules:
    optional = table.get("optional", False)
    platforms = tuple(platform.lower() for platform in strings(optional))
    for platform in platforms:
        if platform not in PLATFORMS:
            near = difflib.get_close_matches(platform, PLATFORMS, n=1)
            report(
                f"{where}.optional",
                f"unknown platform {platform!r}" + (f"; near: {near[0]}" if near else ""),
                f"optional is true or names platforms: {', '.join(PLATFORMS)}",
            )
    rules = StageRules(
        include=strings(table.get("include")),
        exclude=strings(table.get("exclude")),
        force_include=strings(table.get("force_include")),
        default_patterns=table.get("default_patterns") is not False,
        optional=optional if isinstance(optional, bool) else platforms,
    )
    for key, pattern in rules.patterns():
        if not _is_plain(pattern.removesuffix("/")):
            report(
                f"{where}.{key}",
                f"the pattern {pattern!r} can match nothing",
                "patterns are relative to the stage directory and separate components by one slash",
                Severity.WARNING,
            )
    return rules


def _is_plain(path: str) -> bool:
    return "\\" not in path and all(part not in ("", ".", "..") for part in path.split("/"))
