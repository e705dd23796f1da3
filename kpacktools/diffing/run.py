"""``kpacktools diff`` as a function: two paths in, a difference out."""

from __future__ import annotations

from msgspec.structs import replace

from kpacktools.diffing.compare import compare, compare_distributions
from kpacktools.diffing.inventory import Inventory, take_inventory
from kpacktools.diffing.model import Difference
from kpacktools.diffing.reportfile import read_report
from kpacktools.diffing.requirements import Distribution, distributions
from kpacktools.pipeline import Settings

__all__ = ["diff"]


def diff(old: str, new: str, settings: Settings) -> Difference:
    """Compare two sets: whatever ``inspect`` takes, or JSON reports of it.

    ``settings.depth`` says how deep: only at depth content are kernels compared, else counted. Memory grows with
    the number of kernels and not with their size.

    Raises :class:`~kpacktools.errors.CallError` for a path that is unusable.
    """
    before, had = _side(old, settings)
    after, has = _side(new, settings)
    difference = compare(before, after, settings.policy.targets())
    if not (had and has):
        return difference
    # Wheels on one side only mean that a tree was packed, and not that distributions came or went.
    return replace(difference, distributions=compare_distributions(had, has))


def _side(path: str, settings: Settings) -> tuple[Inventory, tuple[Distribution, ...]]:
    report = read_report(path)
    if report is not None:
        return report, ()
    inventory, run = take_inventory("diff", [path], settings)
    listed, found = distributions(run.inputs)
    return replace(inventory, findings=(*inventory.findings, *found)), listed
