"""What a wheel says of itself: its file name, dist-info folder, METADATA and WHEEL file against each other.

After the specifications "Binary distribution format" and "Core metadata" (on packaging.python.org).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from packaging.metadata import InvalidMetadata, Metadata, RawMetadata
from packaging.tags import parse_tag
from packaging.utils import canonicalize_name

from kpacktools.checks.references import some
from kpacktools.checks.wheelread import DIST_INFO, Wheel, as_version
from kpacktools.findings import Finding, Severity, finding

__all__ = ["check_wheel_names"]

MAX_TAGS: Final = 10_000
"""Tags that a WHEEL file may expand to."""


def check_wheel_names(wheel: Wheel) -> Iterator[Finding]:
    """``wheel-name-invalid``, a warning for what installers put up with."""
    for message in (*_names_differ(wheel), *_metadata_faults(wheel), *_wheel_faults(wheel)):
        yield finding(
            "wheel-name-invalid", wheel.path, message, "build the wheel again; do not rename or edit one"
        )
    yield from _milder_name_faults(wheel)


def _names_differ(wheel: Wheel) -> Iterator[str]:
    """Where the file name and what is inside say different names or versions."""
    if wheel.name is None:
        return
    said = []
    if wheel.dist_info is not None:
        name, _, version = wheel.dist_info.removesuffix(DIST_INFO).partition("-")
        said.append((f"its folder {wheel.dist_info}", name, version))
    if wheel.metadata is not None:
        said.append(("its METADATA", wheel.metadata.get("name", ""), wheel.metadata.get("version", "")))
    for what, name, version in said:
        if canonicalize_name(name) != wheel.name.distribution or as_version(version) != wheel.name.version:
            yield (
                f"{what} says {name or 'no name'} {version or 'without a version'}, its file name "
                f"{wheel.name.distribution} {wheel.name.version}"
            )


def _metadata_faults(wheel: Wheel) -> Iterator[str]:
    """Fields of METADATA that do not follow its specification.

    That a field is newer than the Metadata-Version is none: setuptools wrote License-File for years before 2.4.
    Nor is a newer minor version, which installers take.
    """
    if wheel.metadata is None:
        return
    version = wheel.metadata.get("metadata_version", "")
    if version.partition(".")[0] not in ("1", "2"):
        yield f"its METADATA says Metadata-Version {version or '(nothing)'}, and installers know 1 and 2"
    metadata = Metadata.from_raw(wheel.metadata, validate=False)
    for name in sorted({"name", "version", *wheel.metadata} - {"metadata_version"}):
        try:
            getattr(metadata, name)
        except InvalidMetadata as error:
            yield f"its METADATA is invalid: {' '.join(str(error).split())}"


def _wheel_faults(wheel: Wheel) -> Iterator[str]:
    """What is wrong with the WHEEL file, or otherwise there than in the file name."""
    if wheel.about is None:
        return
    version = str(wheel.about.get("Wheel-Version", "")).strip()
    if version.partition(".")[0] != "1":
        yield f"its WHEEL file says Wheel-Version {version or '(nothing)'}, and installers know 1.0"
    purelib = str(wheel.about.get("Root-Is-Purelib", "")).strip()
    if purelib.lower() not in ("true", "false"):
        yield f"its WHEEL file says Root-Is-Purelib {purelib or '(nothing)'}, expected true or false"
    if wheel.name is None:
        return
    build = str(wheel.about.get("Build", "")).strip()
    named = "".join(map(str, wheel.name.build))
    if build != named:
        yield f"its WHEEL file says build {build or '(none)'}, its file name {named or '(none)'}"
    lines = [str(line).strip() for line in wheel.about.get_all("Tag", [])]
    if sum(math.prod(part.count(".") + 1 for part in line.split("-")) for line in lines) > MAX_TAGS:
        yield f"its WHEEL file expands to more than {MAX_TAGS:,} tags"
        return
    try:
        tags = frozenset(tag for line in lines for tag in parse_tag(line))
    except ValueError:
        yield f"its WHEEL file holds a tag that cannot be read: {some(lines)}"
        return
    if tags != wheel.tags:
        inside, outside = sorted(map(str, tags)), sorted(map(str, wheel.tags))
        yield f"its WHEEL file says {some(inside) or 'no tag'}, its file name {some(outside)}"


def _milder_name_faults(wheel: Wheel) -> Iterator[Finding]:
    """What installers put up with."""
    messages = []
    if wheel.name is not None and wheel.name.spelling != str(wheel.name.version):
        messages.append(
            f"its file name spells the version {wheel.name.spelling}, whose normal form is {wheel.name.version}"
        )
    if wheel.unparsed and _is_known(wheel.metadata):
        messages.append(f"its METADATA holds fields that no standard has so: {some(sorted(wheel.unparsed))}")
    for message in messages:
        yield finding(
            "wheel-name-invalid",
            wheel.path,
            message,
            "build the wheel with a current builder",
            severity=Severity.WARNING,
        )


def _is_known(metadata: RawMetadata | None) -> bool:
    """True for a version of METADATA whose fields packaging knows."""
    try:
        return metadata is not None and bool(Metadata.from_raw(metadata, validate=False).metadata_version)
    except InvalidMetadata:
        return False
