"""Findings: what is wrong, or worth knowing, as data.

One table holds every name with its default severity and one sentence; the documentation is made from it, so
names, severities and docs cannot drift apart. Names are stable: users list them in policy files and CI filters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

__all__ = ["KINDS", "Finding", "Kind", "Severity", "counted", "errors", "finding", "sort_findings"]


class Severity(str, Enum):
    """How bad a finding is. Only errors stop a command; ``--strict`` counts warnings as errors."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"

    def __str__(self) -> str:
        return self.value


E, W, I = Severity.ERROR, Severity.WARNING, Severity.INFO  # noqa: E741 - the table below reads as design does


class Kind(Struct, frozen=True):
    """One row of the table of findings."""

    name: str
    severity: Severity
    meaning: str


_TABLE: Final = (
    # Conflicts
    Kind("content-conflict", E, "Two inputs offer one path with different bytes."),
    Kind("path-type-conflict", E, "One path is a file in one place and a folder in another."),
    Kind("case-collision", E, "Two paths differ only in upper and lower case."),
    Kind("host-set-mismatch", W, "The generic halves of the shards hold different sets of files."),
    Kind(
        "generic-superseded",
        W,
        "A policy lets the primary shard's generic file be taken instead of this one.",
    ),
    Kind("foreign-target", E, "A shard holds content for a target that another shard was built for."),
    Kind("double-claim", E, "Two handlers claim the same content."),
    Kind("mixed-runs", W, "The shards come from different build runs."),
    # Unplaced content
    Kind("unclaimed-target-content", E, "A folder holds content of a target, and no handler claims it."),
    Kind("unknown-target", E, "A folder is named like a target that nobody knows."),
    Kind("target-named-folder", I, "A folder outside every engine is named like a target; it stays generic."),
    Kind("device-code-in-generic", E, "A kpack or code object would end up in the generic part."),
    Kind("kpack-outside-arch-content", W, "A kpack lies outside arch_content; it goes with its target."),
    Kind("special-file", E, "A FIFO, device or socket is among the content."),
    Kind("nested-target", W, "Another target's folder lies inside a target's folder."),
    Kind("variant-shadows-base", W, "An archive for a feature variant lacks kernels of the plain one."),
    # Completeness
    Kind("coverage-gap", E, "A required engine has no content for a required target."),
    Kind("empty-bundle", E, "A target folder holds no file."),
    Kind(
        "partial-bundle",
        E,
        "A manifest stands without its kpack, a kpack without its manifest, or a set's report without a file.",
    ),
    Kind("no-match", E, "A filter matches nothing."),
    # Manifests
    Kind("manifest-invalid", E, "A manifest cannot be read or does not follow its schema."),
    Kind("manifest-unknown-schema", E, "A manifest names no schema, or one that nobody knows."),
    Kind("target-mismatch", E, "Folder, manifest, archive name and archive disagree about the target."),
    Kind("missing-kpack", E, "A manifest names an archive that is not there."),
    Kind("missing-kernel", E, "A manifest names a kernel that is not there."),
    Kind("orphan-kernel", W, "An archive holds a kernel that no manifest names."),
    Kind("digest-mismatch", E, "The bytes do not have the digest that a manifest declares."),
    Kind("size-mismatch", E, "A file does not have the size that a manifest declares."),
    Kind("symbol-missing", E, "A manifest names a kernel symbol that the code object lacks."),
    Kind("signature-mismatch", W, "A manifest lays out a kernel's arguments otherwise than the code object."),
    Kind("sidecar-mismatch", E, "A sidecar file and what it describes do not belong together."),
    Kind("provenance-mixed", W, "Bundles of one engine come from different builds."),
    Kind("provenance-unknown", W, "A bundle does not say which build it came from."),
    # Containers
    Kind("kpack-corrupt", E, "A kpack archive is damaged or cut."),
    Kind("kpack-unsupported", E, "A kpack archive uses a format that is not supported."),
    Kind("archive-invalid", E, "An artifact directory or archive does not follow its format."),
    Kind("codeobject-invalid", E, "A code object cannot be read."),
    Kind("codeobject-target-mismatch", E, "A code object was built for another target than where it lies."),
    # Compiler lanes
    Kind("lane-unknown", E, "A compiler lane, or the compiler of a code object, is not qualified."),
    Kind("lane-mismatch", E, "The declared lane is not that of the compiler that made the code objects."),
    Kind(
        "lane-mixed", E, "Bundles of one engine are built on different lanes; a warning within one profile."
    ),
    Kind("lane-not-admitted", E, "An op is built on a lane that its consumer does not take."),
    # Paths
    Kind("bad-path", E, "A path is absolute, leaves its root, or holds a backslash or control character."),
    Kind("symlink-escape", E, "A symbolic link leads out of the tree."),
    Kind("symlink-dangling", W, "A symbolic link leads nowhere."),
    Kind("path-too-long", W, "A path is too long for some systems once it is installed."),
    Kind("unportable-name", W, "A name holds characters that Windows cannot store."),
    # Host side
    Kind(
        "marker-unresolved",
        E,
        "A host library's kernels are in no archive; a warning where some targets are.",
    ),
    Kind("fat-binary", I, "A host library still carries its device code."),
    Kind("plugin-shadowed", E, "A folder hides a hipDNN engine plugin of the same name."),
    # Wheels
    Kind(
        "wheel-record-invalid", E, "A wheel's RECORD and its members are not the same, or read differently."
    ),
    Kind("wheel-name-invalid", E, "A wheel's file name and what it says of itself are invalid or disagree."),
    Kind("wheel-shared-file", E, "Two wheels of one set own the same path."),
    Kind("wheel-too-large", W, "A wheel is larger than it may be."),
    Kind("wheel-version-skew", W, "A wheel requires another version of one that lies beside it."),
    Kind("wheel-dependency-open", E, "A wheel requires a distribution that is neither built nor external."),
    Kind(
        "wheel-needed-unresolved",
        W,
        "A library needs one that the set and the host lack; info where only no RUNPATH leads to it.",
    ),
    # Plugins
    Kind("plugin-invalid", E, "A plugin cannot be loaded or breaks its contract."),
    # Descriptors and topology
    Kind(
        "descriptor-invalid",
        E,
        "An artifact descriptor does not follow its format, or cannot mean what it says.",
    ),
    Kind(
        "descriptor-uncaptured", E, "A file belongs to no stage prefix, or to no component, of its artifact."
    ),
    Kind("descriptor-overlap", E, "Descriptors capture two files for one installed path."),
    Kind("topology-invalid", E, "A build topology does not follow its format or contradicts itself."),
    Kind("topology-unknown-handler", E, "A topology splits with a handler that is not registered."),
    Kind("topology-disagrees", E, "A topology says otherwise than the descriptors or the content."),
    Kind("artifact-name-unreadable", W, "TheRock's own tools cannot parse this artifact directory's name."),
)

KINDS: Final[Mapping[str, Kind]] = {kind.name: kind for kind in _TABLE}
"""Every kind of finding by name, in the order of the table."""

_RANK: Final = {E: 0, W: 1, I: 2}


class Finding(Struct, frozen=True):
    """One thing that is wrong or worth knowing."""

    name: str
    severity: Severity
    path: str
    """Where: a path as the user would type it, or a target key or distribution where there is no path."""
    message: str
    hint: str = ""
    """What to do about it."""
    sources: tuple[str, ...] = ()
    """The inputs involved, where there are several."""


def finding(
    name: str,
    path: str,
    message: str,
    hint: str = "",
    *,
    sources: Iterable[str] = (),
    severity: Severity | None = None,
) -> Finding:
    """A finding with its default severity from the table.

    Raises :class:`KeyError` for a name that the table lacks.
    """
    return Finding(name, severity or KINDS[name].severity, path, message, hint, tuple(sources))


def counted(number: int, noun: str) -> str:
    """A number and its noun: ``1 file``, ``2 files``."""
    return f"{number} {noun}" + ("" if number == 1 else "s")


def errors(findings: Iterable[Finding]) -> list[Finding]:
    """Those findings that stop a command."""
    return [f for f in findings if f.severity is Severity.ERROR]


def sort_findings(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Errors first, unknown targets before anything else, then by name and path; duplicates once."""
    unique = dict.fromkeys(findings)
    return tuple(
        sorted(
            unique,
            key=lambda f: (_RANK[f.severity], f.name != "unknown-target", f.name, f.path, f.message),
        )
    )


def with_severity(found: Iterable[Finding], severities: Mapping[str, Severity | None]) -> list[Finding]:
    """The findings under a policy's severities; None drops a finding (``ignore``)."""
    out = []
    for f in found:
        severity = severities.get(f.name, f.severity)
        if severity is not None:
            out.append(f if severity is f.severity else replace(f, severity=severity))
    return out
