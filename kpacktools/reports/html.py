"""The report as one HTML page that needs nothing else: no network, no framework, no file beside it.

The page says nothing about when and where it was made: the same report gives the same bytes. Its Content Security
Policy lets exactly its own style sheet and script in, by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
from string import Template

from kpacktools import __version__
from kpacktools.data import package_file
from kpacktools.reports import htmlparts
from kpacktools.reports.docslinks import FINDINGS_PAGE
from kpacktools.reports.kernellists import KernelLists
from kpacktools.reports.markup import json_script
from kpacktools.reports.matrix import matrix_of
from kpacktools.reports.model import Report

__all__ = ["as_html"]


def as_html(report: Report, kernels: KernelLists, *, findings_page: str = FINDINGS_PAGE) -> str:
    """The report, its bundles' kernels included, as an HTML document with a final newline.

    ``findings_page`` is where the links of findings lead.
    """
    style, script = _file("style.css"), _file("page.js")
    return Template(_file("page.html")).substitute(
        version=__version__,
        policy=f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; "
        "base-uri 'none'; form-action 'none'",
        title=f"{'ok' if report.ok else 'not ok'} - kpacktools {report.command}",
        style=style,
        script=script,
        verdict=htmlparts.verdict(report),
        matrix=htmlparts.matrix(matrix_of(report)),
        findings=htmlparts.findings(report.findings, findings_page),
        sizes=htmlparts.sizes(report),
        builds=htmlparts.builds(report),
        kernels=htmlparts.kernels(kernels),
        data=json_script("kernel-data", htmlparts.kernel_columns(kernels)),
    )


def _file(name: str) -> str:
    return package_file("reports", "page", name).decode()


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"
