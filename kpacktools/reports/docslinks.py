"""Where the documentation of findings is: the one place that reports take its address from."""

from __future__ import annotations

from typing import Final

__all__ = ["FINDINGS_PAGE", "finding_link"]

FINDINGS_PAGE: Final = "docs/findings.md"
"""The page of findings, relative to a checkout of the repository; an absolute URL works too."""


def finding_link(name: str, page: str = FINDINGS_PAGE) -> str:
    """The entry of one finding: ``docs/findings.md#content-conflict``."""
    return f"{page}#{name}"
