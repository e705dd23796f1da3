"""What a command that writes is told of its output."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from kpacktools.reports.model import Report

__all__ = ["Target", "Write"]


class Target(Struct, frozen=True):
    """A local folder that a command writes to, and how."""

    folder: str
    dry_run: bool = False
    replace: bool = False
    is_passing: bool = False
    """The folder is read once and thrown away: hard links to inputs are as good as copies."""


Write = Callable[[Target], "Report"]
"""What a command does with its output: writes it whole or not at all, and says so in a report."""
