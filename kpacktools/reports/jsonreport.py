"""The report as JSON: ``kpacktools.report/v1``, described by ``report.schema.json`` beside this module."""

from __future__ import annotations

import json
from typing import Any, Final

from kpacktools.checks.bundles import CheckedBundle
from kpacktools.findings import Finding
from kpacktools.reports.model import Report

__all__ = ["SCHEMA", "as_json", "as_mapping"]

SCHEMA: Final = "kpacktools.report/v1"


def as_json(report: Report) -> str:
    """The report as one JSON document, with a final newline."""
    return json.dumps(as_mapping(report), indent=1, ensure_ascii=True) + "\n"


def as_mapping(report: Report) -> dict[str, Any]:
    """The report as JSON-ready values."""
    return {
        "schema": SCHEMA,
        "command": report.command,
        "ok": report.ok,
        "dry_run": report.dry_run,
        "inputs": [
            {
                "path": item.path,
                "shard": item.shard,
                "targets": list(item.targets),
                "files": item.files,
                "bytes": item.size,
            }
            for item in report.inputs
        ],
        "bundles": [_bundle(item) for item in report.bundles],
        "outputs": [
            {
                "path": item.path,
                "kind": item.kind,
                "key": item.key,
                "files": item.files,
                "bytes": item.size,
                "sha256": item.sha256,
                "state": item.state,
            }
            for item in report.outputs
        ],
        "counts": {
            "files_in": report.counts.files_in,
            "files_out": report.counts.files_out,
            "files_deduplicated": report.counts.files_deduplicated,
            "files_filtered": report.counts.files_filtered,
            "files_superseded": report.counts.files_superseded,
            "kernels_checked": report.kernels_checked,
        },
        "duplicates": {"kernels": report.duplicates.kernels, "bytes": report.duplicates.size},
        "findings": [_finding(item) for item in report.findings],
        "notes": list(report.notes),
    }


def _bundle(item: CheckedBundle) -> dict[str, Any]:
    bundle = item.bundle
    return {
        "engine": bundle.engine,
        "key": bundle.key.name,
        "shard": bundle.shard,
        "artifact": bundle.artifact.name,
        "component": bundle.artifact.component,
        "prefix": bundle.prefix,
        "path": bundle.path,
        "files": len(bundle.entries),
        "bytes": item.size,
        "kernels": item.kernels,
        "kpacks": [
            {
                "path": kpack.path,
                "sha256": kpack.sha256,
                "kernels": kpack.kernels,
                "scheme": kpack.scheme,
                "bytes": kpack.size,
            }
            for kpack in item.kpacks
        ],
        "lane": item.lane_name,
        "compilers": sorted(item.compilers, key=lambda name: (-item.compilers[name], name)),
        "compiler_counts": dict(sorted(item.compilers.items())),
        "build_id": item.build_id,
    }


def _finding(item: Finding) -> dict[str, Any]:
    return {
        "name": item.name,
        "severity": item.severity.value,
        "path": item.path,
        "sources": list(item.sources),
        "message": item.message,
        "hint": item.hint,
    }
