"""The table of findings, what is made of it, and its texts."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from builders import Build, code_object, only, write_kpack
from console_blocks import REPOSITORY, blocks
from kpacktools.errors import CallError
from kpacktools.findings import KINDS, Finding, Kind, Severity, errors, finding, sort_findings, with_severity
from kpacktools.outputs.wheelset import WheelOptions
from kpacktools.pipeline import Settings
from kpacktools.policy import load_policy
from kpacktools.reports.findingsdoc import findings_page, main, read_texts
from kpacktools.wheelbuild import wheel

Maker = Callable[..., Build]

every_kind = pytest.mark.parametrize("name", KINDS)


def _words(folder: str) -> set[str]:
    """What could be names of findings, in quotes, in the modules of a folder."""
    paths = [path for path in (REPOSITORY / folder).rglob("*.py") if path != TABLE]
    return {word for path in paths for word in re.findall(r'"([a-z]+(?:-[a-z]+)+)"', path.read_text("utf-8"))}


TABLE = REPOSITORY / "kpacktools/findings.py"
TEXTS = REPOSITORY / "docs/findings.d"
PACKAGE = _words("kpacktools")
TESTS = _words("tests")


@every_kind
def test_every_finding_is_given_somewhere(name: str) -> None:
    assert name in PACKAGE


@every_kind
def test_every_finding_is_tested_somewhere(name: str) -> None:
    assert name in TESTS


@every_kind
def test_a_meaning_is_one_sentence(name: str) -> None:
    assert re.fullmatch(r"[A-Z].*[^.]\.", KINDS[name].meaning)


def test_a_finding_has_its_default_severity_unless_told() -> None:
    assert finding("orphan-kernel", "a", "b") == Finding("orphan-kernel", Severity.WARNING, "a", "b")
    told = finding("orphan-kernel", "a", "b", "hint", sources=["c"], severity=Severity.INFO)
    assert told == Finding("orphan-kernel", Severity.INFO, "a", "b", "hint", ("c",))


def test_a_finding_that_the_table_lacks_cannot_be_made() -> None:
    with pytest.raises(KeyError):
        finding("no-such-finding", "a", "b")


def test_findings_are_sorted_by_severity_name_and_path_and_each_is_kept_once() -> None:
    ordered = [
        finding("unknown-target", "z", ""),
        finding("bad-path", "a", ""),
        finding("bad-path", "b", "1"),
        finding("bad-path", "b", "2"),
        finding("orphan-kernel", "a", ""),
        finding("target-named-folder", "a", ""),
    ]
    assert sort_findings([*reversed(ordered), *ordered]) == tuple(ordered)


def test_two_wheels_of_one_set_may_not_own_one_path(build: Maker, tmp_path: Path, settings: Settings) -> None:
    shards = [build(target) for target in ("gfx942", "gfx950")]
    for shard in shards:  # only the first archive holds what its name says
        write_kpack(shard.engines / "kernels_gfx942.kpack", {"k": code_object(shard.key)}, shard.key)
    roots = [str(shard.root) for shard in shards]
    report = wheel(roots, str(tmp_path / "dist"), settings, WheelOptions("1.0", host="rocm-sdk-libraries"))
    found = only(report, "wheel-shared-file")
    assert found.path.endswith("/kernels_gfx942.kpack")
    assert found.sources == ("rocm-sdk-device-gfx942", "rocm-sdk-libraries")
    assert not (tmp_path / "dist").exists()


def test_only_errors_stop_a_command() -> None:
    found = [finding(name, "a", "") for name in ("bad-path", "orphan-kernel", "target-named-folder")]
    assert errors(found) == found[:1]


def test_severities_change_or_drop_findings_by_name() -> None:
    found = [finding(name, "a", "") for name in ("bad-path", "orphan-kernel", "mixed-runs")]
    changed = with_severity(found, {"orphan-kernel": Severity.ERROR, "mixed-runs": None})
    assert [(f.name, f.severity) for f in changed] == [
        ("bad-path", Severity.ERROR),
        ("orphan-kernel", Severity.ERROR),
    ]


def test_a_policy_may_name_every_finding(tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text("[severity]\n" + "".join(f'{name} = "ignore"\n' for name in KINDS))
    assert load_policy(str(policy)).severities == dict.fromkeys(KINDS)


def test_the_page_of_findings_is_up_to_date() -> None:
    page = findings_page(KINDS.values(), read_texts(TEXTS))
    assert (REPOSITORY / "docs/findings.md").read_text("utf-8") == page, (
        "run: python -m kpacktools.reports.findingsdoc > docs/findings.md"
    )


def test_a_finding_without_a_text_and_a_text_without_a_finding_are_refused() -> None:
    kinds = [Kind("some-finding", Severity.ERROR, "Something is wrong.")]
    with pytest.raises(CallError, match=r"no text for some-finding: write docs/findings\.d/some-finding\.md"):
        findings_page(kinds, {})
    with pytest.raises(CallError, match="lacks other"):
        findings_page(kinds, {"some-finding": "", "other": ""})


def test_the_page_shows_an_example_without_the_marks_for_tests() -> None:
    kinds = [Kind("some-finding", Severity.ERROR, "Something is wrong.")]
    text = "Text.\n\n```console tested finding=some-finding\n$ kpacktools\n```\n"
    page = findings_page(kinds, {"some-finding": text})
    assert page.endswith(
        "\n## some-finding\n\n**error**: Something is wrong.\n\nText.\n\n```console\n$ kpacktools\n```\n"
    )


def test_an_installed_package_has_no_texts_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("kpacktools.reports.findingsdoc.TEXTS", tmp_path / "absent")
    assert main() == 2
    assert "are in a checkout" in capsys.readouterr().err


def test_the_page_can_be_printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("kpacktools.reports.findingsdoc.TEXTS", TEXTS)
    assert main() == 0
    assert capsys.readouterr().out.count("\n## ") == len(KINDS)


@every_kind
def test_a_text_has_one_tested_example_that_shows_the_finding_and_a_fix(name: str) -> None:
    text = read_texts(TEXTS)[name]
    (example,) = [b for b in blocks(text, "console") if b.info[1:] == ("tested", f"finding={name}")]
    assert re.search(rf"^(error|warning|info) {name}\b", example.body, re.MULTILINE)
    assert "\n\n**Fix.** " in text
