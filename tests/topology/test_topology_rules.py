"""``topology check FILE``: a topology by itself."""

from __future__ import annotations

import json
from importlib import resources

import pytest
from jsonschema import Draft202012Validator
from topology_files import Checkout

from builders import names, only
from kpacktools.cli import run
from kpacktools.errors import CallError
from kpacktools.findings import Severity


def test_a_topology_that_uses_every_key_has_no_findings(checkout: Checkout) -> None:
    assert checkout.check().findings == ()


def test_E3_an_unknown_handler_is_named_with_the_known_ones(checkout: Checkout) -> None:
    report = checkout.replace('["rocblas"]', '["rocblsa", "rocblas"]').check()
    found = only(report, "topology-unknown-handler")
    assert "artifacts.blas.split_databases names 'rocblsa'" in found.message
    assert "near: rocblas" in found.message
    assert "hipkernelprovider" in found.hint
    assert "rocke" in found.hint


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[metadata]", "[metdata]", "unknown key 'metdata'; near: metadata"),
        ("artifact_deps =", "artifact_dep =", "unknown key 'artifact_dep'; near: artifact_deps"),
        ("artifact_group_deps", "disable_platforms", "(it is a key of source_set and of artifact)"),
        ('type = "target-specific"', 'type = "per-arch"', "expected one of "),
        ('type = "target-specific"\n', "", "the property 'type'"),
        ('platform = "linux"', 'platform = "Linux"', 'found "Linux"'),
        ('["ppc64le"]', '["ppc64"]', 'found "ppc64"'),
        ('"HIP_RUNTIME"', '"hip"', 'found "hip"'),
        ('"optional-sources/hrx"', '"optional-sources/../hrx"', 'found "optional-sources/../hrx"'),
        ('["hip"]', '"hip"', 'artifact_deps: expected array, found "hip"'),
        ('["blas-libs"]', '["blas-lib"]', "names 'blas-lib', which is not there; near: blas-libs"),
        ('artifact_deps = ["hip"]', 'artifact_deps = ["hop"]', "names 'hop', which is not there; near: hip"),
        ('test_artifacts = ["blas"]', 'test_artifacts = ["bla"]', "names 'bla', which is not there"),
        ('source_sets = ["libraries"]', 'source_sets = ["library"]', "names 'library', which is not there"),
        ('group = "blas-libs"', 'group = "blas"', "artifacts.blas.artifact_group names 'blas'"),
        ('artifact_deps = ["hip"]', 'artifact_deps = ["hip", "hip"]', "names 'hip' twice"),
        ("[artifacts.blas]", "[artifacts.Blas_]", "names are lower-case letters and digits"),
        ("[metadata]", "[metadata", "is not valid TOML: "),
    ],
)
def test_what_breaks_the_format_is_named(checkout: Checkout, old: str, new: str, said: str) -> None:
    if "coer" in new:
        old, new, said = (
            '["blas-libs"]',
            '["blas-lib"]',
            "names 'blas-lib', which is not there; near: blas-libs",
        )
    report = checkout.replace(old, new).check()
    assert "topology-invalid" in names(report)
    assert any(said in finding.message for finding in report.findings), report.findings


def test_circles_are_named_once_with_their_way(checkout: Checkout) -> None:
    checkout.add('[artifacts.a]\nartifact_group = "core"\ntype = "target-neutral"\nartifact_deps = ["b"]\n')
    checkout.add('[artifacts.b]\nartifact_group = "core"\ntype = "target-neutral"\nartifact_deps = ["a"]\n')
    assert checkout.messages() == ["artifacts depend on one another in a circle: a -> b -> a"]


def test_an_artifact_that_depends_on_itself_is_a_circle(checkout: Checkout) -> None:
    messages = checkout.replace('artifact_deps = ["hip"]', 'artifact_deps = ["blas"]').messages()
    assert messages == ["artifacts depend on one another in a circle: blas -> blas"]


def test_stages_that_wait_for_one_another_are_a_circle(checkout: Checkout) -> None:
    checkout.replace('artifact_groups = ["core"]', 'artifact_groups = ["core", "late"]')
    checkout.add('[artifact_groups.late]\nartifact_group_deps = ["blas-libs"]\n')
    checkout.add('[artifacts.late]\nartifact_group = "late"\ntype = "target-neutral"\n')
    assert checkout.messages() == ["build_stages depend on one another in a circle: math -> runtime -> math"]


def test_a_group_of_two_stages_has_two_owners(checkout: Checkout) -> None:
    report = checkout.add('[build_stages.again]\nartifact_groups = ["core"]\n').check()
    assert (
        "artifact_groups.core is built by 2 stages: runtime, again"
        in only(report, "topology-invalid").message
    )
    assert not report.ok


def test_a_group_of_no_stage_and_without_artifacts_is_a_warning(checkout: Checkout) -> None:
    report = checkout.add("[artifact_groups.later]\n").check()
    assert {finding.message for finding in report.findings} == {
        "artifact_groups.later is built by no stage",
        "artifact_groups.later has no artifact",
    }
    assert {finding.severity for finding in report.findings} == {Severity.WARNING}


@pytest.mark.parametrize(
    "text",
    [
        '[source_sets.other]\nsubmodules = ["rocm-libraries"]\n',
        '[source_sets.other]\npath_prefixes = ["projects"]\n',
        """[source_sets.other]
        external_git_sources = [{ name = 'h', origin = 'o', commit = 'c', path = 'optional-sources/hrx' }]
        """,
        '[artifacts.hip-runtime]\nartifact_group = "core"\ntype = "target-neutral"\n',
    ],
)
def test_sources_and_features_have_one_owner(checkout: Checkout, text: str) -> None:
    (message,) = checkout.add(text).messages()
    assert "is that of several" in message


def test_an_artifact_of_a_stage_that_nothing_waits_for_is_refused(checkout: Checkout) -> None:
    report = checkout.replace('artifact_group_deps = ["core"]\n', "").check()
    found = only(report, "topology-invalid")
    assert (
        "artifacts.blas depends on hip of the stage runtime, and its own stage math does not wait"
        in found.message
    )
    assert "add core to artifact_groups.blas-libs.artifact_group_deps" in found.hint


def test_a_group_and_a_stage_that_differ_on_being_built_once_disagree(checkout: Checkout) -> None:
    report = checkout.replace('type = "per-arch"', 'type = "generic"').check()
    assert only(report, "topology-disagrees").severity is Severity.WARNING


def test_handlers_of_a_target_neutral_artifact_disagree(checkout: Checkout) -> None:
    report = checkout.replace('"target-specific"', '"target-neutral"').check()
    assert "is never split" in only(report, "topology-disagrees").message


def test_a_file_that_is_not_there_is_a_call_error(checkout: Checkout) -> None:
    checkout.path.unlink()
    with pytest.raises(CallError, match="No such file"):
        checkout.check()


def test_the_json_report_follows_its_schema(checkout: Checkout, capsys: pytest.CaptureFixture[str]) -> None:
    checkout.replace('["rocblas"]', '["nosuch"]')
    assert run(["topology", "check", str(checkout.path), "--format", "json"]) == 1
    report = json.loads(capsys.readouterr().out)
    schema = resources.files("kpacktools.reports").joinpath("report.schema.json").read_text("utf-8")
    Draft202012Validator(json.loads(schema)).validate(report)
    assert report["command"] == "topology check"
    assert report["ok"] is False
    assert [finding["name"] for finding in report["findings"]] == ["topology-unknown-handler"]


def test_strict_counts_warnings(checkout: Checkout, capsys: pytest.CaptureFixture[str]) -> None:
    checkout.add("[artifact_groups.later]\n")
    assert run(["topology", "check", str(checkout.path)]) == 0
    assert run(["topology", "check", str(checkout.path), "--strict"]) == 1
