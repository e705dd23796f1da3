"""Names that belong to the containers of content and never to the content."""

from __future__ import annotations

from typing import Final

__all__ = ["MANIFEST_NAME", "STAGING_PREFIX", "STAGING_SUFFIX", "is_staging_name"]

MANIFEST_NAME: Final = "artifact_manifest.txt"
"""The file that makes a folder an artifact directory: one stage prefix a line."""

STAGING_PREFIX: Final = ".kpacktools-"
STAGING_SUFFIX: Final = ".tmp"


def is_staging_name(name: str) -> bool:
    """True for the temporary folders of a run that is under way or died: scans pass over them."""
    return name.startswith(STAGING_PREFIX) and name.endswith(STAGING_SUFFIX)
