"""``artifacts check``: descriptors on the files that are there."""

from __future__ import annotations

from pathlib import Path

import pytest
from descriptor_files import STAGE, Project, artifact_directory, texts

from builders import names, only
from kpacktools.cli import artifacts_check
from kpacktools.errors import CallError
from kpacktools.findings import Severity

OTHER = "ml-libs/y/stage"


def test_a_tree_that_is_captured_whole_has_no_findings(project: Project) -> None:
    project.files("lib/a.so", "include/a.h")
    report = project.descriptor("[components.lib.STAGE]\n[components.dev.STAGE]\n").check()
    assert report.ok
    assert report.findings == ()
    assert (report.counts.files_in, report.counts.files_out) == (2, 2)


def test_E4_a_file_that_no_component_captures_and_a_misspelt_key(project: Project) -> None:
    project.files("lib/a.so", "share/a.txt")
    report = project.descriptor('[components.lib.STAGE]\ninlcude = ["share/**"]\n').check()
    assert not report.ok
    uncaptured = only(report, "descriptor-uncaptured")
    assert uncaptured.path == str(project.tree / STAGE / "share/a.txt")
    assert "lib" in uncaptured.message
    assert "unknown key 'inlcude'; near: include" in only(report, "descriptor-invalid").message


def test_A10_two_stage_directories_with_one_path_overlap(project: Project) -> None:
    project.files("lib/a.so").files("lib/a.so", stage=OTHER)
    report = project.descriptor(f'[components.lib.STAGE]\n[components.lib."{OTHER}"]\n').check()
    overlap = only(report, "descriptor-overlap")
    assert overlap.path == "lib/a.so"
    assert f"x lib ({STAGE}); by x lib ({OTHER})" in overlap.message
    assert "keeps the first without a word" in overlap.message


def test_A10_two_artifacts_with_one_path_overlap(project: Project) -> None:
    project.files("include/a.h").files("include/a.h", stage=OTHER)
    project.descriptor("[components.dev.STAGE]\n")
    report = project.descriptor(f'[components.dev."{OTHER}"]\n', "artifact-y.toml").check()
    overlap = only(report, "descriptor-overlap")
    assert f"x dev ({STAGE}); by y dev ({OTHER})" in overlap.message
    assert [Path(source).name for source in overlap.sources] == ["artifact-x.toml", "artifact-y.toml"]


def test_A10_two_artifacts_that_take_the_same_file_overlap(project: Project) -> None:
    project.files("include/a.h").descriptor("[components.dev.STAGE]\n")
    report = project.descriptor("[components.dev.STAGE]\n", "artifact-y.toml").check()
    assert names(report) == {"descriptor-overlap"}


def test_a_later_component_leaves_what_an_earlier_one_took(project: Project) -> None:
    project.files("bin/a")
    text = '[components.run.STAGE]\ninclude = "bin/**"\n[components.test.STAGE]\ninclude = "bin/**"\n'
    assert project.descriptor(text).check().findings == ()


def test_components_that_extends_takes_out_of_the_chain_overlap(project: Project) -> None:
    project.files("lib/a.so")
    text = '[components.lib.STAGE]\n[components.dev]\nextends = []\n[components.dev.STAGE]\ninclude = "**/*.so"\n'
    report = project.descriptor(text).check()
    assert "lib, dev" in only(report, "descriptor-overlap").message


def test_a_file_that_is_another_artifacts_folder_is_a_conflict(project: Project) -> None:
    project.files("include/a").files("include/a/b.h", stage=OTHER)
    report = project.descriptor(f'[components.dev.STAGE]\n[components.dev."{OTHER}"]\n').check()
    assert names(report) == {"path-type-conflict"}


def test_options_excuse_files_that_nothing_captures(project: Project) -> None:
    project.files("lib/a.so", "share/man/a.1", "share/b")
    text = '[components.lib.STAGE]\n[options]\nunmatched_exclude = "share/man/**"\n'
    report = project.descriptor(text).check()
    assert only(report, "descriptor-uncaptured").path.endswith("share/b")
    assert report.counts.files_filtered == 1


@pytest.mark.parametrize(
    ("optional", "platform", "found"),
    [
        ("false", "linux", True),
        ("true", "linux", False),
        ('"windows"', "linux", True),
        ('"Linux"', "linux", False),
    ],
)
def test_stage_directories_may_be_missing_only_where_they_are_optional(
    project: Project, optional: str, platform: str, found: bool
) -> None:
    project.files("lib/a.so")
    report = project.descriptor(
        f'[components.lib.STAGE]\n[components.lib."{OTHER}"]\noptional = {optional}\n'
    ).check(platform=platform)
    assert bool(texts(report, "descriptor-invalid")) == found
    assert report.ok != found


def test_a_pattern_that_matches_nothing_is_an_info(project: Project) -> None:
    project.files("lib/a.so")
    report = project.descriptor('[components.lib.STAGE]\nexclude = "lib/windows/**"\n').check()
    assert only(report, "descriptor-invalid").severity is Severity.INFO


def test_a_question_mark_that_therock_reads_otherwise_is_a_warning(project: Project) -> None:
    project.files("lib/ab.txt", "lib/abc.txt")
    report = project.descriptor('[components.lib.STAGE]\ninclude = ["lib/a?.txt", "lib/abc.txt"]\n').check()
    found = only(report, "descriptor-invalid")
    assert found.severity is Severity.WARNING
    assert "here it differs for lib/abc.txt" in found.message


def test_a_question_mark_that_makes_no_difference_here_is_an_info(project: Project) -> None:
    project.files("lib/ab.txt")
    report = project.descriptor('[components.lib.STAGE]\ninclude = "lib/a?.txt"\n').check()
    assert only(report, "descriptor-invalid").severity is Severity.INFO


@pytest.mark.parametrize("pattern", ["**", "lib/"])
def test_other_patterns_that_therock_reads_otherwise_are_warnings(project: Project, pattern: str) -> None:
    project.files("lib/a.txt")
    report = project.descriptor(f'[components.lib.STAGE]\ninclude = "{pattern}"\n').check()
    assert only(report, "descriptor-invalid").severity is Severity.WARNING


def test_components_that_a_run_without_patterns_starves_are_named(project: Project) -> None:
    project.files("lib/a.so", "bin/a")
    text = "[components.lib.STAGE]\n[components.run.STAGE]\n[components.dev.STAGE]\n[components.doc.STAGE]\n"
    found = only(project.descriptor(text).check(), "descriptor-invalid")
    assert "nothing remains for dev, doc" in found.message
    assert found.severity is Severity.WARNING


def test_a_run_that_excludes_what_a_later_component_wants_starves_it_not(project: Project) -> None:
    project.files("bin/a", "bin/test")
    text = '[components.run.STAGE]\nexclude = "bin/t*"\n[components.test.STAGE]\ninclude = "bin/test"\n'
    assert project.descriptor(text).check().findings == ()


def test_artifact_directories_are_checked_component_by_component(project: Project) -> None:
    artifact_directory(project.tree, "x_lib_generic", [f"{STAGE}/lib/a.so"])
    artifact_directory(project.tree, "x_lib_gfx942", [f"{STAGE}/lib/gfx942/a.co"])
    artifact_directory(project.tree, "x_dev_generic", [f"{STAGE}/include/a.h"])
    text = '[components.lib.STAGE]\ninclude = "lib/gfx*/**"\n[components.dev.STAGE]\n'
    assert project.descriptor(text).check().findings == ()


def test_a_file_in_the_wrong_components_directory_is_not_captured(project: Project) -> None:
    artifact_directory(project.tree, "x_dev_generic", [f"{STAGE}/lib/a.so"])
    report = project.descriptor("[components.lib.STAGE]\n[components.dev.STAGE]\n").check()
    assert "lies in x_dev_*, but" in only(report, "descriptor-uncaptured").message


def test_a_file_in_two_components_directories_is_not_captured_by_both(project: Project) -> None:
    artifact_directory(project.tree, "x_lib_generic", [f"{STAGE}/lib/a.so"])
    artifact_directory(project.tree, "x_run_generic", [f"{STAGE}/lib/a.so"])
    report = project.descriptor('[components.lib.STAGE]\n[components.run.STAGE]\ninclude="bin/**"\n').check()
    assert "descriptor-uncaptured" in names(report)


def test_one_artifact_directory_is_checked_for_its_own_component_only(project: Project) -> None:
    folder = artifact_directory(project.tree, "x_lib_generic", [f"{STAGE}/lib/a.so"])
    text = f'[components.lib.STAGE]\n[components.run."{OTHER}"]\ninclude = "bin/**"\n'
    assert project.descriptor(text).check(tree=folder).findings == ()


def test_a_stage_prefix_that_no_component_names_is_not_captured(project: Project) -> None:
    artifact_directory(project.tree, "x_lib_generic", [f"{OTHER}/lib/a.so"], stages=[STAGE, OTHER])
    report = project.descriptor("[components.lib.STAGE]\n").check()
    assert OTHER in only(report, "descriptor-uncaptured").path


def test_a_file_below_no_stage_prefix_is_not_captured(project: Project) -> None:
    artifact_directory(project.tree, "x_lib_generic", [f"{STAGE}/lib/a.so", "stray.txt"])
    report = project.descriptor("[components.lib.STAGE]\n").check()
    assert only(report, "descriptor-uncaptured").path.endswith("stray.txt")


def test_artifacts_without_a_descriptor_are_a_note(project: Project) -> None:
    artifact_directory(project.tree, "x_lib_generic", [f"{STAGE}/lib/a.so"])
    artifact_directory(project.tree, "y_lib_generic", [f"{STAGE}/lib/a.so"])
    report = project.descriptor("[components.lib.STAGE]\n").check()
    assert report.findings == ()
    assert any("artifact directories of y" in note for note in report.notes)


def test_descriptors_of_other_artifacts_only_are_a_call_error(project: Project) -> None:
    artifact_directory(project.tree, "y_lib_generic", [f"{STAGE}/lib/a.so"])
    with pytest.raises(CallError, match="holds artifact directories of y; the descriptors are those of x"):
        project.descriptor("[components.lib.STAGE]\n").check()


def test_of_an_artifacts_descriptors_the_other_platforms_is_passed_over(project: Project) -> None:
    project.files("lib/a.so")
    project.descriptor("[components.lib.STAGE]\n", "linux/artifact.toml")
    project.descriptor('[components.lib."other/stage"]\n', "windows/artifact.toml")
    report = project.check(*(f"x={path}" for path in project.descriptors))
    assert report.findings == ()
    assert "windows/artifact.toml" in report.notes[0]


def test_a_folder_stands_for_the_descriptors_in_it(project: Project) -> None:
    project.files("lib/a.so").descriptor("[components.lib.STAGE]\n", "some/where/artifact-x.toml")
    project.descriptors = [str(project.root / "some")]
    assert project.check().counts.files_out == 1


@pytest.mark.parametrize(
    ("paths", "said"),
    [
        (["{root}/none"], "no such file"),
        (["{tree}"], "holds no descriptor"),
        (["{root}/artifact.toml"], "--map"),
    ],
)
def test_unusable_descriptors_are_call_errors(project: Project, paths: list[str], said: str) -> None:
    project.files("lib/a.so").descriptor("", "artifact.toml")
    project.descriptors = [path.format(root=project.root, tree=project.tree) for path in paths]
    with pytest.raises(CallError, match=said):
        project.check()


def test_a_tree_that_is_not_there_is_a_call_error(project: Project) -> None:
    with pytest.raises(CallError, match="no such file or folder"):
        project.descriptor("").check()


def test_a_descriptor_without_a_tree_is_a_call_error() -> None:
    with pytest.raises(CallError, match=r"expected DESCRIPTOR\.\.\. TREE"):
        artifacts_check.command.main(["artifact-x.toml"], standalone_mode=False)
