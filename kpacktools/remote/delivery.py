"""Where a command's output goes: a local folder, or a store that a URL names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kpacktools.errors import CallError
from kpacktools.remote.target import Target, Write
from kpacktools.remote.urls import is_url, shown

if TYPE_CHECKING:
    from kpacktools.pipeline import Settings
    from kpacktools.reports.model import Report

__all__ = ["Target", "Write", "deliver", "refuse_url", "write_bytes"]


def deliver(
    out: str, write: Write, settings: Settings, *, replace: bool = False, dry_run: bool = False
) -> Report:
    """Run ``write`` on the folder ``out``; on a folder of its own where that is a URL, and publish what it wrote.

    Raises what ``write`` raises, and :class:`~kpacktools.errors.CallError` as
    :func:`kpacktools.remote.publish.publish` does.
    """
    if not is_url(out):
        return write(Target(out, dry_run, replace))
    from kpacktools.remote.publish import publish

    return publish(out, write, settings, replace=replace, dry_run=dry_run)


def refuse_url(out: str) -> None:
    """For commands that write to local folders only. Raises :class:`~kpacktools.errors.CallError` for a URL."""
    if is_url(out):
        raise CallError(f"-o {shown(out)}: expected a local folder; this command publishes nothing")


def write_bytes(url: str, data: bytes) -> None:
    """Write one object, over one that is there; it appears whole.

    Raises :class:`~kpacktools.errors.CallError`, also where the URL is one that can only be read.
    """
    from kpacktools.remote.destinations import open_destination
    from kpacktools.remote.urls import basename, parent

    place = open_destination(parent(url))
    with place.workspace():
        place.put_bytes(basename(url), data, create=False)
