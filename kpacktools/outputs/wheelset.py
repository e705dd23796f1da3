"""The set of wheels that a plan becomes: names, requirements, and which file goes where.

Rules: a wheel per package owner; it requires the host's distribution and the wheels of its parents that the set
holds, and nothing that is neither in the set nor declared external; no path is in two wheels of a set.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from kpacktools.checks.paths import resolve_link
from kpacktools.errors import CallError
from kpacktools.findings import Finding, Severity, finding
from kpacktools.outputs.members import Member
from kpacktools.outputs.wheels import WheelSpec
from kpacktools.planning.layouts import below_prefix
from kpacktools.planning.plan import PlannedFile, PlannedFolder
from kpacktools.planning.selection import Input
from kpacktools.targets import GENERIC, TargetTable

__all__ = ["PlannedWheel", "WheelOptions", "installed_files", "wheel_specs"]

HOST_DISTRIBUTION: Final = "rocm-sdk-libraries"
DEFAULT_OVERLAY: Final = "_rocm_sdk_libraries"
_MAX_LINKS: Final = 40
"""Links followed before a chain counts as a loop; what Linux does."""

Installed = Mapping[str, PlannedFile]


@dataclass(frozen=True, slots=True)
class WheelOptions:
    """What the command line says about the set."""

    version: str
    dist_prefix: str = "rocm-sdk-device"
    overlay: str = DEFAULT_OVERLAY
    requires: tuple[str, ...] | None = None
    """Requirement templates with ``{version}`` and ``{key}``; None for the host's distribution."""
    external: tuple[str, ...] = ()
    pin: Literal["exact", "compatible"] = "exact"
    platform_tag: str = "any"
    build_tag: str | None = None
    host: str | None = None
    """Distribution name of a wheel of the generic part; None builds none."""
    devel_links: bool = True


@dataclass(frozen=True, slots=True)
class PlannedWheel:
    """One wheel of the set and the key that it is for."""

    key: str
    """Target key, or ``generic`` for the host's wheel."""
    spec: WheelSpec
    is_bundle: bool = False
    """For a family or sub-family of processors."""

    @property
    def level(self) -> str:
        """What the wheel is for, in words."""
        if self.key == GENERIC:
            return "host"
        return "family" if self.is_bundle else "processor"

    @property
    def size(self) -> int:
        """Bytes of its payload, before compression."""
        return sum(member.size for member in self.spec.files)


def wheel_specs(
    folders: Sequence[PlannedFolder],
    options: WheelOptions,
    targets: TargetTable,
    installed: Callable[[], Installed],
) -> tuple[tuple[PlannedWheel, ...], tuple[Finding, ...]]:
    """The wheels of a set, and what is wrong with it.

    ``folders`` are those of an :class:`~kpacktools.planning.merge.OwnerLayout` plan; ``installed`` gives every
    file of the inputs by its installed path, and is only called where links have to be followed.

    Raises :class:`~kpacktools.errors.CallError` for a version or a requirement that cannot be read.
    """
    try:
        version = str(Version(options.version))
    except InvalidVersion:
        raise CallError(f"--version {options.version}: expected a version such as 7.15.0 (PEP 440)") from None
    devices = [folder.key for folder in folders if folder.key != GENERIC and folder.files]
    found: list[Finding] = []
    wheels = []
    for folder in folders:
        is_host = folder.key == GENERIC
        if not folder.files and not is_host:
            continue
        if is_host and options.host is None:
            continue
        spec = WheelSpec(
            distribution=str(options.host) if is_host else f"{options.dist_prefix}-{folder.key}",
            version=version,
            tags=(f"py3-none-{options.platform_tag}",),
            build_tag=options.build_tag,
            requires=() if is_host else tuple(_requires(folder.key, devices, version, options, targets)),
            summary="ROCm libraries without device code" if is_host else f"ROCm device code for {folder.key}",
            files=tuple(_members(folder, options.overlay, installed, found)),
            generated=_host_files(folder, options) if is_host else _devel_links(folder, version, options),
        )
        wheels.append(PlannedWheel(folder.key, spec, folder.key in targets.bundles))
    specs = [wheel.spec for wheel in wheels]
    if not wheels:
        found.append(
            finding(
                "no-match",
                options.dist_prefix,
                "no wheel would be built: nothing of what was asked for holds content for a target",
                "look at what there is with kpacktools inspect; --component and --artifact choose what is packed",
            )
        )
    found += _open_requirements(specs, options)
    found += _shared_files(specs)
    return tuple(wheels), tuple(found)


def _pinned(name: str, version: str, pin: str) -> str:
    """A requirement on a sibling: exactly this version, or any compatible release of its first two segments."""
    if pin == "exact":
        return f"{name}=={version}"
    release = Version(version).release
    return f"{name}~={'.'.join(map(str, (*release, 0)[: max(2, len(release))]))}"


def _requires(
    key: str, built: Sequence[str], version: str, options: WheelOptions, targets: TargetTable
) -> Iterator[str]:
    if options.requires is None:
        yield _pinned(options.host or HOST_DISTRIBUTION, version, options.pin)
    for template in options.requires or ():
        if "{key}" in template and key in targets.bundles:
            continue  # a template that names the key speaks of processors, not of families
        text = template.replace("{version}", version).replace("{key}", key)
        try:
            yield str(Requirement(text))
        except InvalidRequirement as error:
            reason = " ".join(str(error).split())
            raise CallError(f"--requires {template}: {text!r} is no requirement: {reason}") from None
    for parent in targets.parents.get(key, ()):
        if parent in built:
            yield _pinned(str(canonicalize_name(f"{options.dist_prefix}-{parent}")), version, options.pin)


def _members(
    folder: PlannedFolder, overlay: str, installed: Callable[[], Installed], found: list[Finding]
) -> Iterator[Member]:
    prefix = overlay + "/" if overlay else ""
    for file in folder.files:
        if not file.entry.link:
            yield Member(prefix + file.dest, file.tree, file.entry.path, file.entry.size, file.entry.mode)
            continue
        # A wheel holds no links: what a link leads to is packed in its place.
        for dest, target in _followed(file.dest, file.entry.link, installed(), found, file):
            yield Member(prefix + dest, target.tree, target.entry.path, target.entry.size, target.entry.mode)


def _followed(
    dest: str, link: str, installed: Installed, found: list[Finding], origin: PlannedFile
) -> Iterator[tuple[str, PlannedFile]]:
    path = dest
    for _ in range(_MAX_LINKS):
        target = resolve_link(path, link)
        if target is None:
            break
        file = installed.get(target)
        if file is None:
            below = target + "/"
            inside = [name for name in installed if name.startswith(below)]
            if not inside or dest.startswith(below):
                break
            for name in inside:
                inner = installed[name]
                if not inner.entry.link:
                    yield dest + name[len(target) :], inner
            return
        if not file.entry.link:
            yield dest, file
            return
        path, link = target, file.entry.link
    found.append(
        finding(
            "symlink-dangling",
            posixpath.join(origin.tree.label, origin.entry.path),
            f"leads to {origin.entry.link!r}, which cannot be packed in its place",
            "a wheel holds no links: give all of its target's inputs, or remove the link",
            severity=Severity.ERROR,
        )
    )


def _host_files(folder: PlannedFolder, options: WheelOptions) -> tuple[tuple[str, bytes], ...]:
    """Only the host makes the overlay a package, unless its content does so already: a device's ``__init__.py``
    would be a shared file."""
    if not options.overlay or any(file.dest == "__init__.py" for file in folder.files):
        return ()
    return ((f"{options.overlay}/__init__.py", b""),)


def _devel_links(folder: PlannedFolder, version: str, options: WheelOptions) -> tuple[tuple[str, bytes], ...]:
    """The manifest that ``rocm-sdk init`` reads to link device files into the devel tree beside the overlay."""
    if not options.devel_links or not options.overlay:
        return ()
    links = [
        {"relpath": file.dest, "target": f"{'../' * (file.dest.count('/') + 1)}{options.overlay}/{file.dest}"}
        for file in folder.files
    ]
    document = json.dumps({"version": version, "links": links}, indent=1, ensure_ascii=False) + "\n"
    return ((f"{options.overlay}/.devel_links/{folder.key}.json", document.encode()),)


def _open_requirements(specs: Sequence[WheelSpec], options: WheelOptions) -> Iterator[Finding]:
    known = {canonicalize_name(spec.distribution) for spec in specs}
    known |= {canonicalize_name(name) for name in options.external}
    known.add(canonicalize_name(HOST_DISTRIBUTION))
    for spec in specs:
        for requirement in spec.requires:
            name = canonicalize_name(Requirement(requirement).name)
            if name not in known:
                yield finding(
                    "wheel-dependency-open",
                    spec.distribution,
                    f"requires {requirement}, which is neither in the set nor declared external",
                    f"add --external {name} where another index provides it, or build it too",
                )


def _shared_files(specs: Iterable[WheelSpec]) -> Iterator[Finding]:
    owner: dict[str, str] = {}
    for spec in specs:
        for path in (*(member.arcname for member in spec.files), *(name for name, _ in spec.generated)):
            other = owner.setdefault(path, spec.distribution)
            if other is not spec.distribution:
                yield finding(
                    "wheel-shared-file",
                    path,
                    f"would be in two wheels, {other} and {spec.distribution}: uninstalling one breaks the other",
                    "give the file one target, or make it generic",
                    sources=(other, spec.distribution),
                )


def installed_files(inputs: Iterable[Input]) -> dict[str, PlannedFile]:
    """Every file and link of the inputs by the path that it has once installed."""
    return {
        dest: PlannedFile(dest, claimed.artifact.tree, entry)
        for item in inputs
        for claimed in item.artifacts
        for folder, entries in claimed.artifact.tree.folders.items()
        for entry in entries
        for dest in (below_prefix(claimed.artifact, entry.path),)
    }
