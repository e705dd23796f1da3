"""The set of wheels that a plan becomes: names, requirements, and which file goes where.

Rules: a wheel per package owner; it requires the host's distribution and the wheels of its parents that the set
holds, and nothing that is neither in the set nor declared external; no path is in two wheels of a set.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from kpacktools.errors import CallError
from kpacktools.findings import Finding, Severity, finding
from kpacktools.outputs.jsontext import document_text
from kpacktools.outputs.members import Later, Member
from kpacktools.outputs.requirements import normal_requirement, required_name
from kpacktools.outputs.sbom import Provenance
from kpacktools.outputs.wheels import WheelSpec
from kpacktools.planning.layouts import below_prefix
from kpacktools.planning.links import resolve_link
from kpacktools.planning.plan import PlannedFile, PlannedFolder
from kpacktools.planning.selection import Input
from kpacktools.targets import GENERIC, TargetTable

__all__ = [
    "KnownFiles",
    "PlannedWheel",
    "WheelOptions",
    "installed_files",
    "specifier",
    "wheel_specs",
    "with_provenance",
]

META: Final = "meta"
"""The key of a wheel that holds extras and no content."""
HOST_DISTRIBUTION: Final = "rocm-sdk-libraries"
DEFAULT_OVERLAY: Final = "_rocm_sdk_libraries"
_KEPT: Final = 1 << 20
"""Bytes of a manifest that is kept until it is written; a larger one is made again."""
_MAX_LINKS: Final = 40
"""Links followed before a chain counts as a loop; what Linux does."""

Installed = Mapping[str, PlannedFile]
KnownFiles = Mapping[tuple[int, str], Provenance]
"""(``id`` of a tree, path in it) -> what is known of that kpack or code object."""


class WheelOptions(Struct, frozen=True):
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
    rpaths: tuple[str, ...] = ()
    """Folders below ``site-packages`` that the RUNPATHs of device libraries are to lead to; empty leaves them."""


class PlannedWheel(Struct, frozen=True):
    """One wheel of the set and the key that it is for."""

    key: str
    """Target key, or ``generic`` for the host's wheel."""
    spec: WheelSpec
    is_bundle: bool = False
    """For a family or sub-family of processors."""
    engine: str = ""
    """The engine whose part of the device's content it is; empty for all of it."""

    @property
    def level(self) -> str:
        """What the wheel is for, in words."""
        if self.key == GENERIC:
            return "host"
        if self.key == META:
            return "extras for"
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
    known: KnownFiles | None = None,
) -> tuple[tuple[PlannedWheel, ...], tuple[Finding, ...]]:
    """The wheels of a set, and what is wrong with it.

    ``folders`` are those of an :class:`~kpacktools.planning.merge.OwnerLayout` plan; ``installed`` gives every
    file of the inputs by its installed path, and is only called where links have to be followed. ``known`` tells
    what goes into the SBOMs.

    Raises :class:`~kpacktools.errors.CallError` for a version or a requirement that cannot be read.
    """
    try:
        version = str(Version(options.version))
    except InvalidVersion:
        raise CallError(f"--version {options.version}: expected a version such as 7.15.0 (PEP 440)") from None
    found: list[Finding] = []
    packed = [folder for folder in folders if folder.groups and folder.key != GENERIC]
    set_of = _Set(options, version, targets, tuple(dict.fromkeys(folder.key for folder in packed)))
    wheels = [set_of.device(folder, _members(folder, options.overlay, installed, found)) for folder in packed]
    if any("/" in folder.name for folder in packed):
        wheels += [set_of.union(key, packed) for key in set_of.keys]
    for folder in folders:
        if folder.key == GENERIC and options.host is not None:
            wheels.append(set_of.host(folder, _members(folder, options.overlay, installed, found)))
    if known is not None:
        wheels = [wheel if wheel.key == GENERIC else with_provenance(wheel, known) for wheel in wheels]
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


class _Set(Struct, frozen=True):
    """What the wheels of one set have in common."""

    options: WheelOptions
    version: str
    targets: TargetTable
    keys: tuple[str, ...]
    """The device keys that are built."""

    def name(self, key: str, engine: str = "") -> str:
        """The distribution of a device's wheel, or of one engine's part of it."""
        return f"{self.options.dist_prefix}-{key}" + (f"-{canonicalize_name(engine)}" if engine else "")

    def device(self, folder: PlannedFolder, members: Iterable[Member]) -> PlannedWheel:
        """A device's wheel; or, where the folder is one engine's, that part."""
        engine = folder.name.partition("/")[2]
        requires = list(self._on_host(folder.key))
        if not engine:
            requires += self._on_parents(folder.key)
        what = f"ROCm device code for {folder.key}" + (f": {engine}" if engine else "")
        generated = _devel_links(folder, self.version, self.options)
        return self._planned(
            folder.key, self.name(folder.key, engine), requires, what, members, generated, engine
        )

    def union(self, key: str, folders: Iterable[PlannedFolder]) -> PlannedWheel:
        """The device's own wheel where its content is in parts: it holds nothing and requires them."""
        parts = [folder.name.partition("/")[2] for folder in folders if folder.key == key]
        requires = [*self._on_host(key), *self._on_parents(key)]
        requires += [f"{canonicalize_name(self.name(key, engine))}=={self.version}" for engine in parts]
        return self._planned(key, self.name(key), requires, f"ROCm device code for {key}, in parts by engine")

    def host(self, folder: PlannedFolder, members: Iterable[Member]) -> PlannedWheel:
        """The wheel of the generic part."""
        what = "ROCm libraries without device code"
        name = str(self.options.host)
        return self._planned(folder.key, name, (), what, members, _host_files(folder, self.options))

    def _planned(
        self,
        key: str,
        name: str,
        requires: Iterable[str],
        summary: str,
        members: Iterable[Member] = (),
        generated: tuple[tuple[str, bytes | Later], ...] = (),
        engine: str = "",
    ) -> PlannedWheel:
        spec = WheelSpec(
            distribution=name,
            version=self.version,
            tags=(f"py3-none-{self.options.platform_tag}",),
            build_tag=self.options.build_tag,
            requires=tuple(requires),
            summary=summary,
            files=tuple(members),
            generated=generated,
        )
        return PlannedWheel(key, spec, key in self.targets.bundles, engine)

    def _pinned(self, name: str) -> str:
        return canonicalize_name(name) + specifier(self.version, self.options.pin)

    def _on_host(self, key: str) -> Iterator[str]:
        if self.options.requires is None:
            yield self._pinned(self.options.host or HOST_DISTRIBUTION)
        for template in self.options.requires or ():
            if "{key}" in template and key in self.targets.bundles:
                continue  # a template that names the key speaks of processors, not of families
            text = template.replace("{version}", self.version).replace("{key}", key)
            try:
                yield normal_requirement(text)
            except ValueError as error:
                reason = " ".join(str(error).split())
                raise CallError(f"--requires {template}: {text!r} is no requirement: {reason}") from None

    def _on_parents(self, key: str) -> Iterator[str]:
        for parent in self.targets.parents.get(key, ()):
            if parent in self.keys:
                yield self._pinned(self.name(parent))


def specifier(version: str, pin: str) -> str:
    """How wheels of a set require one another: exactly this version, or any compatible release (without the local
    label, of at least two segments: PEP 440)."""
    if pin == "exact":
        return f"=={version}"
    release = Version(version).release
    return f"~={'.'.join(map(str, (*release, 0)[: max(2, len(release))]))}"


def with_provenance(wheel: PlannedWheel, known: KnownFiles) -> PlannedWheel:
    """The wheel with a bill of materials of what is known of its files."""
    provenance = {
        member.arcname: known[id(member.tree), member.path]
        for member in wheel.spec.files
        if (id(member.tree), member.path) in known
    }
    return replace(wheel, spec=replace(wheel.spec, provenance=provenance))


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


def _devel_links(
    folder: PlannedFolder, version: str, options: WheelOptions
) -> tuple[tuple[str, bytes | Later], ...]:
    """The manifest that ``rocm-sdk init`` reads to link device files into the devel tree beside the overlay."""
    if not options.devel_links or not options.overlay:
        return ()
    overlay = options.overlay

    def document() -> bytes:
        links = (
            {"relpath": file.dest, "target": f"{'../' * (file.dest.count('/') + 1)}{overlay}/{file.dest}"}
            for file in folder.files
        )
        return document_text({"version": version}, "links", links)

    content: bytes | Later = document()
    if len(content) > _KEPT:
        content = Later(len(content), document)
    name = folder.name.replace("/", "-")
    return ((f"{overlay}/.devel_links/{name}.json", content),)


def _open_requirements(specs: Sequence[WheelSpec], options: WheelOptions) -> Iterator[Finding]:
    known = {canonicalize_name(spec.distribution) for spec in specs}
    known |= {canonicalize_name(name) for name in options.external}
    known.add(canonicalize_name(HOST_DISTRIBUTION))
    for spec in specs:
        for requirement in spec.requires:
            name = required_name(requirement)
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
