"""A JSON report as one side of a comparison: what was counted then, without the content itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from kpacktools.diffing.inventory import Holding, Inventory
from kpacktools.errors import CallError
from kpacktools.remote.urls import plain
from kpacktools.reports.jsonreport import SCHEMA
from kpacktools.trees.places import read_file, shown

__all__ = ["read_report"]

_MAX_REPORT: Final = 256 << 20
"""Bytes of a report; one of 200,000 files has a few million."""


class _Schema(msgspec.Struct):
    schema: str = ""


class _Bundle(msgspec.Struct):
    engine: str
    key: str
    files: int
    bytes: int
    kernels: int
    lane: str | None = None
    compiler_counts: Mapping[str, int] = {}


class _Report(msgspec.Struct):
    bundles: tuple[_Bundle, ...]


def read_report(path: str) -> Inventory | None:
    """A report of ``--format json`` (``kpacktools.report/v1``) as an inventory without kernels' names.

    None for a path that is no JSON document with a report's schema, such as a bundle manifest. Raises
    :class:`~kpacktools.errors.CallError` for a report that cannot be understood.
    """
    if not plain(path).endswith(".json"):
        return None
    try:
        data = read_file(path, _MAX_REPORT)
    except OSError as error:
        raise CallError(f"{path}: {error.strerror}") from error
    path = shown(path)
    try:
        schema = msgspec.json.decode(data, type=_Schema).schema
    except msgspec.DecodeError:
        return None
    if not schema.startswith("kpacktools."):
        return None
    if schema != SCHEMA:
        raise CallError(f"{path} is a document of schema {schema}; expected {SCHEMA}")
    try:
        report = msgspec.json.decode(data, type=_Report)
    except msgspec.DecodeError as error:
        raise CallError(f"{path} does not follow {SCHEMA}: {error}") from None
    holdings = [
        Holding(b.engine, b.key, b.lane, b.kernels, b.files, b.bytes, dict(b.compiler_counts))
        for b in report.bundles
    ]
    order = sorted(holdings, key=lambda holding: (holding.engine, holding.key, holding.lane or ""))
    return Inventory((path,), tuple(order), by_content=False)
