"""Names that belong to the containers of content and never to the content."""

from __future__ import annotations

import re
from typing import Final

__all__ = [
    "MANIFEST_NAME",
    "MAX_MANIFEST",
    "REPORT_NAME",
    "STAGING_PREFIX",
    "STAGING_SUFFIX",
    "archive_stem",
    "is_staging_name",
]

MANIFEST_NAME: Final = "artifact_manifest.txt"
"""The file that makes a folder an artifact directory: one stage prefix a line."""
MAX_MANIFEST: Final = 1 << 20
"""Bytes of ``artifact_manifest.txt``."""

REPORT_NAME: Final = "kpacktools-report.json"
"""The report of a set that was published into a store, beside what it lists; it is written last."""

STAGING_PREFIX: Final = ".kpacktools-"
STAGING_SUFFIX: Final = ".tmp"

_NAME: Final = re.compile(r"(?P<stem>.+)\.tar\.(?P<form>zst|xz)", re.DOTALL)


def is_staging_name(name: str) -> bool:
    """True for the temporary folders of a run that is under way or died: scans pass over them."""
    return name.startswith(STAGING_PREFIX) and name.endswith(STAGING_SUFFIX)


def archive_stem(path: str) -> str | None:
    """The artifact directory that an archive stands for, by name; None for a path that is not named like one.

    >>> archive_stem("out/hip_lib_gfx942.tar.zst")
    'out/hip_lib_gfx942'
    """
    match = _NAME.fullmatch(path)
    return None if match is None else match["stem"]
