"""The report: everything a command found and did, as data. Text, JSON and other forms are made from it."""

from __future__ import annotations

from typing import Final

from msgspec import Struct, field

from kpacktools.checks.bundles import CheckedBundle
from kpacktools.findings import Finding, Severity
from kpacktools.planning.merge import Counts
from kpacktools.trees.shards import Artifact

__all__ = ["NO_DUPLICATES", "Duplicates", "InputReport", "OutputReport", "Report"]


class Duplicates(Struct, frozen=True):
    """Kernels that a set ships more than once, byte for byte."""

    kernels: int = 0
    size: int = 0
    """Bytes, decompressed, that one copy of each would save."""


NO_DUPLICATES: Final = Duplicates()


class InputReport(Struct, frozen=True):
    """One shard that was opened."""

    path: str
    shard: str
    targets: tuple[str, ...]
    files: int
    size: int
    artifacts: tuple[Artifact, ...] = ()
    """What it holds, for forms that explain decisions."""


class OutputReport(Struct, frozen=True):
    """One thing that was written, or would be."""

    path: str
    kind: str
    """``artifact``, ``prefix``, ``archive``, ``wheel`` or ``descriptor``."""
    key: str
    files: int
    size: int
    state: str = ""
    """``written``, ``kept``, ``replaced``; ``planned`` in a dry run."""
    sha256: str | None = None


class Report(Struct, frozen=True):
    """What a command found and did."""

    command: str
    findings: tuple[Finding, ...]
    inputs: tuple[InputReport, ...] = ()
    bundles: tuple[CheckedBundle, ...] = ()
    outputs: tuple[OutputReport, ...] = ()
    counts: Counts = field(default_factory=Counts)
    kernels_checked: int = 0
    duplicates: Duplicates = NO_DUPLICATES
    notes: tuple[str, ...] = ()
    dry_run: bool = False

    @property
    def ok(self) -> bool:
        """True where no finding is an error."""
        return not any(finding.severity is Severity.ERROR for finding in self.findings)
