"""Findings as SARIF 2.1.0, the format that continuous integration systems annotate from.

Format: OASIS Static Analysis Results Interchange Format, https://docs.oasis-open.org/sarif/sarif/v2.1.0/.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import quote, urlsplit

from kpacktools import __version__
from kpacktools.findings import KINDS, Finding, Kind, Severity
from kpacktools.remote.urls import is_url
from kpacktools.reports.docslinks import FINDINGS_PAGE, finding_link
from kpacktools.reports.model import Report
from kpacktools.reports.plaintext import clean

__all__ = ["as_sarif"]

_SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVELS: Final = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
_RULES: Final = {name: index for index, name in enumerate(KINDS)}
_ROOT: Final = "%SRCROOT%"
"""What relative addresses are relative to: the consumer's name for the folder that was worked in."""


def as_sarif(report: Report, *, root: str, findings_page: str = FINDINGS_PAGE) -> str:
    """The findings of a report as one SARIF log of one run, with a final newline.

    The rules are all findings that there are, in the order of the table. ``root`` is the absolute path of the
    folder that relative paths start from; what lies below it gets a relative address, however it was spelled.
    ``findings_page`` becomes the rules' ``helpUri`` where it is an absolute URL, as the format demands; else the
    help text names it.
    """
    log = {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "kpacktools",
                        "version": __version__,
                        "rules": [_rule(kind, findings_page) for kind in KINDS.values()],
                    }
                },
                "invocations": [{"executionSuccessful": True, "exitCode": 0 if report.ok else 1}],
                "originalUriBaseIds": {_ROOT: {"description": {"text": "The folder that was worked in."}}},
                "columnKind": "unicodeCodePoints",
                "results": [_result(item, report, root) for item in report.findings],
            }
        ],
    }
    return json.dumps(log, indent=1, ensure_ascii=True) + "\n"


def _rule(kind: Kind, page: str) -> dict[str, Any]:
    link = finding_link(kind.name, page)
    rule: dict[str, Any] = {
        "id": kind.name,
        "shortDescription": {"text": kind.meaning},
        "help": {"text": f"See {link}", "markdown": f"See [{kind.name}]({link})"},
        "defaultConfiguration": {"level": _LEVELS[kind.severity]},
    }
    if urlsplit(page).scheme:
        rule["helpUri"] = link
    return rule


def _result(item: Finding, report: Report, root: str) -> dict[str, Any]:
    hint = f"\nhint: {item.hint}" if item.hint else ""
    result: dict[str, Any] = {
        "ruleId": item.name,
        "ruleIndex": _RULES[item.name],
        "level": _LEVELS[item.severity],
        "message": {"text": clean(item.message + hint)},
        "locations": [_location(item, [i.path for i in report.inputs], root)],
    }
    if item.sources:
        result["properties"] = {"sources": [clean(source) for source in item.sources]}
    return result


def _location(item: Finding, inputs: Sequence[str], root: str) -> dict[str, Any]:
    """Where a finding is.

    What is no path (a target key, a requirement) is a logical location. The consumers of SARIF place annotations
    by file, so that it also gets the first input.
    """
    if not inputs or any(_is_below(item.path, path) for path in inputs):
        return {"physicalLocation": _address(item.path, root)}
    return {
        "physicalLocation": _address(inputs[0], root),
        "logicalLocations": [{"fullyQualifiedName": clean(item.path)}],
    }


def _is_below(path: str, parent: str) -> bool:
    separator = "/" if is_url(parent) else os.sep
    return path == parent or path.startswith(parent.rstrip(separator) + separator)


def _address(path: str, root: str) -> dict[str, Any]:
    if is_url(path):
        scheme, _, rest = path.partition("://")
        return {"artifactLocation": {"uri": f"{scheme}://{quote(rest, safe='/:%')}"}}
    absolute = os.path.normpath(os.path.join(root, path))
    if absolute == root or _is_below(absolute, root):
        relative = os.path.relpath(absolute, root)
        return {"artifactLocation": {"uri": _encoded(relative), "uriBaseId": _ROOT}}
    place = _encoded(absolute)
    return {"artifactLocation": {"uri": f"file://{'' if place.startswith('/') else '/'}{place}"}}


def _encoded(path: str) -> str:
    """A path as the path of a URI; bytes that are no UTF-8 stay the bytes that they are."""
    return quote(path.replace(os.sep, "/"), safe="/", errors="surrogateescape")
