"""What a wheel says of itself: its file name, METADATA, WHEEL and RECORD, and where its members are installed.

After the specifications "Binary distribution format", "Core metadata" and "Recording installed projects" (all on
packaging.python.org).
"""

from __future__ import annotations

import csv
import io
import os
import posixpath
from collections.abc import Collection, Iterator
from email.message import Message
from email.parser import BytesHeaderParser
from typing import Final, NamedTuple

from msgspec import Struct
from packaging.metadata import RawMetadata, parse_email
from packaging.requirements import InvalidRequirement, Requirement
from packaging.tags import Tag
from packaging.utils import BuildTag, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from kpacktools.checks.references import some
from kpacktools.findings import Finding, finding
from kpacktools.planning.claims import ClaimedArtifact
from kpacktools.trees.places import basename
from kpacktools.trees.wheel import VARIANT_LABEL, WHEEL_SUFFIX, WheelTree, distribution_of

__all__ = [
    "DIST_INFO",
    "SCHEMES",
    "FileName",
    "Row",
    "Wheel",
    "as_version",
    "damaged",
    "installed",
    "read_wheel",
    "systems",
]

MAX_TEXT: Final = 4 << 20
"""Bytes of METADATA or WHEEL that are read; a long README has a tenth of it."""
MAX_RECORD: Final = 64 << 20
"""Bytes of RECORD that are read."""

DIST_INFO: Final = ".dist-info"
_DATA: Final = ".data"
SCHEMES: Final = {"purelib": "", "platlib": "", "headers": "headers", "scripts": "bin", "data": "."}
"""Scheme below ``.data/`` -> where it is installed: the place of packages (empty), or below the prefix."""


class FileName(NamedTuple):
    """What the name of a wheel's file says."""

    distribution: str
    version: Version
    build: BuildTag
    tags: frozenset[Tag]
    spelling: str
    """The version as it is spelt."""


class Row(NamedTuple):
    """One line of RECORD."""

    path: str
    digest: str
    """``sha256=...``; may be empty."""
    size: str


class Wheel(Struct, frozen=True, eq=False):
    """A wheel and what it says of itself; None stands for what cannot be read."""

    claimed: ClaimedArtifact
    tree: WheelTree
    name: FileName | None
    dist_info: str | None
    """The name of its ``.dist-info`` folder."""
    metadata: RawMetadata | None
    unparsed: tuple[str, ...]
    """Fields of METADATA that packaging does not know, or not in this form."""
    about: Message | None
    """The WHEEL file."""
    rows: tuple[Row, ...] | None
    """The lines of RECORD."""

    @property
    def path(self) -> str:
        return self.tree.label

    @property
    def tags(self) -> frozenset[Tag]:
        """The tags of the file name; none where it cannot be read."""
        return frozenset() if self.name is None else self.name.tags

    @property
    def distribution(self) -> str:
        return distribution_of(self.path)

    @property
    def data_folder(self) -> str:
        """The top-level folder whose subfolders are installed by scheme."""
        return (self.dist_info or "").removesuffix(DIST_INFO) + _DATA

    def where(self, path: str) -> str:
        return self.claimed.artifact.where(path)

    def version(self) -> Version | None:
        """The version, by the file name, else by METADATA."""
        if self.name is not None:
            return self.name.version
        return as_version((self.metadata or {}).get("version", ""))

    def requirements(self) -> Iterator[Requirement]:
        """What METADATA requires, as far as it can be read."""
        for text in (self.metadata or {}).get("requires_dist", ()):
            try:
                yield Requirement(text)
            except InvalidRequirement:
                continue  # reported among the fields of METADATA


def read_wheel(claimed: ClaimedArtifact, tree: WheelTree, found: list[Finding]) -> Wheel:
    """A wheel as far as it can be read; what cannot is noted in ``found``."""
    distribution = distribution_of(tree.label)
    name = _file_name(tree.label, found)
    dist_info = _dist_info(tree, distribution, found)
    metadata: RawMetadata | None = None
    unparsed: Collection[str] = ()
    about, rows = None, None
    if dist_info is not None:
        data = _own_file(tree, dist_info, "METADATA", MAX_TEXT, found)
        if data is not None:
            # The body is the README: nothing is checked in it, and older packaging stumbles over some.
            metadata, unparsed = parse_email(data.replace(b"\r\n", b"\n").partition(b"\n\n")[0])
        data = _own_file(tree, dist_info, "WHEEL", MAX_TEXT, found)
        about = None if data is None else BytesHeaderParser().parsebytes(data)
        rows = _record_rows(tree, dist_info, found)
    return Wheel(claimed, tree, name, dist_info, metadata, tuple(sorted(unparsed)), about, rows)


def _file_name(path: str, found: list[Finding]) -> FileName | None:
    base = basename(path)
    try:
        distribution, version, build, tags = parse_wheel_filename(_without_label(base))
    except ValueError as error:
        found.append(
            finding(
                "wheel-name-invalid",
                path,
                f"its file name is not that of a wheel: {error}",
                "expected NAME-VERSION[-BUILD]-PYTHON-ABI-PLATFORM.whl",
            )
        )
        return None
    return FileName(distribution, version, build, tags, base.split("-")[1])


def _without_label(name: str) -> str:
    """The file name without the label of a variant (PEP 825): the part after the platform, which packaging refuses."""
    parts = name.removesuffix(WHEEL_SUFFIX).split("-")
    has_build = len(parts) > 2 and parts[2][:1].isdigit()
    is_variant = len(parts) == 6 + has_build and VARIANT_LABEL.fullmatch(parts[-1])
    return "-".join(parts[:-1]) + WHEEL_SUFFIX if is_variant else name


def _dist_info(tree: WheelTree, distribution: str, found: list[Finding]) -> str | None:
    tops = dict.fromkeys(path.partition("/")[0] for path in tree.members if "/" in path)
    folders = sorted(top for top in tops if top.endswith(DIST_INFO))
    if not folders:
        found.append(
            finding(
                "archive-invalid",
                tree.label,
                "it holds no .dist-info folder, so nothing can install it",
                "build it with a wheel builder, not as a plain ZIP file",
            )
        )
        return None
    if len(folders) > 1:
        found.append(
            finding(
                "wheel-name-invalid",
                tree.label,
                f"it holds {len(folders)} .dist-info folders: {some(folders)}",
                "build one wheel for each distribution",
            )
        )
    own = [folder for folder in folders if canonicalize_name(folder.partition("-")[0]) == distribution]
    return (own or folders)[0]


def _own_file(tree: WheelTree, dist_info: str, name: str, limit: int, found: list[Finding]) -> bytes | None:
    """The content of a file of the ``.dist-info`` folder; None where it cannot be had."""
    path = f"{dist_info}/{name}"
    entry = tree.members.get(path)
    if entry is None or entry.size > limit:
        what = f"it holds no {name}" if entry is None else f"its {name} has {entry.size:,} bytes"
        found.append(
            finding(
                "wheel-record-invalid" if name == "RECORD" else "wheel-name-invalid",
                tree.label,
                f"{what}; installers need it",
                "build the wheel again",
            )
        )
        return None
    try:
        return tree.content(path)
    except OSError as error:
        found.append(damaged(tree, path, str(error.strerror)))
        return None


def _record_rows(tree: WheelTree, dist_info: str, found: list[Finding]) -> tuple[Row, ...] | None:
    data = _own_file(tree, dist_info, "RECORD", MAX_RECORD, found)
    if data is None:
        return None
    try:
        lines = [line for line in csv.reader(io.StringIO(data.decode("utf-8"), newline="")) if line]
        return tuple(Row(path, digest, size) for path, digest, size in lines)
    except (ValueError, csv.Error) as error:
        found.append(
            finding(
                "wheel-record-invalid",
                os.path.join(tree.label, dist_info, "RECORD"),
                f"it cannot be read as CSV in UTF-8 with three columns: {error}",
                "build the wheel again",
            )
        )
        return None


def as_version(text: str) -> Version | None:
    """A version; None for a text that is none."""
    try:
        return Version(text)
    except InvalidVersion:
        return None


def damaged(tree: WheelTree, path: str, reason: str) -> Finding:
    """``archive-invalid`` for a member that cannot be read."""
    return finding(
        "archive-invalid", os.path.join(tree.label, path), reason, "fetch the wheel again, or build it again"
    )


def installed(wheel: Wheel, path: str) -> tuple[str, str] | None:
    """Where a member is installed, as the root (empty for the place of packages) and the path below it; None
    for one that installers refuse."""
    top, _, rest = path.partition("/")
    if not (rest and top.endswith(_DATA)):
        return "", path
    scheme, _, below = rest.partition("/")
    if not below or scheme not in SCHEMES or top != wheel.data_folder:
        return None
    root = SCHEMES[scheme]
    if root == "headers":
        return f"headers/{wheel.distribution}", below
    return ("prefix", posixpath.normpath(f"{root}/{below}")) if root else ("", below)


def systems(wheel: Wheel) -> frozenset[str]:
    """The operating systems that a wheel can be installed on; ``any`` for all."""
    stems = (tag.platform.partition("_")[0].rstrip("0123456789") for tag in wheel.tags)
    return frozenset("linux" if stem.endswith("linux") else stem for stem in stems)
