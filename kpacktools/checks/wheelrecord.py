"""RECORD against the members of a wheel, in both directions.

After the specification "Recording installed projects" (on packaging.python.org).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from kpacktools.checks.references import some
from kpacktools.checks.wheellooks import HASHES, Look
from kpacktools.checks.wheelread import Row, Wheel
from kpacktools.findings import Finding, counted, finding
from kpacktools.trees import Entry

__all__ = ["check_record"]

_BASE64: Final = re.compile("[A-Za-z0-9_-]*")
_UNHASHED: Final = ("RECORD", "RECORD.jws", "RECORD.p7s")


def check_record(wheel: Wheel, looks: Mapping[str, Look]) -> Iterator[Finding]:
    """``wheel-record-invalid``; nothing of a wheel whose RECORD cannot be read, which was found when it was."""
    if wheel.rows is None:
        return
    for message in _record_faults(wheel, wheel.rows, looks):
        yield finding(
            "wheel-record-invalid",
            wheel.where(f"{wheel.dist_info}/RECORD"),
            message,
            "what changes a wheel has to write its RECORD again: `wheel unpack`, edit, `wheel pack`",
        )


def _record_faults(wheel: Wheel, rows: Sequence[Row], looks: Mapping[str, Look]) -> Iterator[str]:
    members = wheel.tree.members
    unhashed = {f"{wheel.dist_info}/{name}" for name in _UNHASHED}
    listed = Counter(row.path for row in rows)
    unlisted = [path for path in members if path not in listed and path not in unhashed]
    if f"{wheel.dist_info}/RECORD" not in listed:
        unlisted.append(f"{wheel.dist_info}/RECORD")
    lists: dict[str, list[str]] = {
        "it does not list {}": unlisted,
        "it lists {} that the wheel lacks": [path for path in listed if path not in members],
        "it lists {} more than once": [path for path, count in listed.items() if count > 1],
    }
    for row in rows:
        fault = _row_fault(row, row.path in unhashed, members.get(row.path), looks.get(row.path, Look()))
        if fault is not None:
            lists.setdefault(fault, []).append(row.path)
    for message, paths in lists.items():
        if paths:
            yield message.format(counted(len(paths), "file")) + f": {some(sorted(set(paths)))}"


def _row_fault(row: Row, may_lack: bool, entry: Entry | None, look: Look) -> str | None:
    """What is wrong with one line of RECORD: a message with room for how many files share it."""
    algorithm, _, digest = row.digest.partition("=")
    if not row.digest:
        return None if may_lack else "it has no digest of {}"
    if algorithm not in HASHES:
        return f"it has {algorithm} digests, which are not allowed, of {{}}"
    if len(digest) != HASHES[algorithm] or not _BASE64.fullmatch(digest):
        return f"it has {algorithm} digests that are not unpadded urlsafe base64 of {{}}"
    if entry is None:
        return None
    if look.digest is not None and look.digest != digest:
        return "it has digests that are not those of {}"
    if row.size and row.size != str(entry.size):
        return "it has sizes that are not those of {}"
    return None
