"""``artifacts emit``: the descriptor that captures exactly what is there."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from descriptor_files import STAGE, Project, artifact_directory

from builders import Build, names, only
from kpacktools.commands import MergeOptions, merge, split
from kpacktools.descriptors.check import check
from kpacktools.descriptors.emit import EmitOptions, emit
from kpacktools.errors import CallError
from kpacktools.pipeline import Settings

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SETTINGS = Settings()
OTHER = "ml-libs/y/stage"


def emitted(tree: Path, **options: object) -> dict[str, dict[str, dict[str, object]]]:
    """The components of the only descriptor that is emitted, which finds nothing on its own tree."""
    out = tree.parent / "artifact-x.toml"
    report = emit(str(tree), str(out), SETTINGS, EmitOptions(**options))  # type: ignore[arg-type]
    assert report.ok, report.findings
    artifact = out.read_text().split(":")[0].removeprefix("# ")
    checked = check([str(out)], str(tree), SETTINGS, mapped=[f"{artifact}={out}"], platform="linux")
    assert checked.findings == ()
    components: dict[str, dict[str, dict[str, object]]] = tomllib.loads(out.read_text())["components"]
    return components


def test_components_own_patterns_need_not_be_written(project: Project) -> None:
    project.files("lib/a.so", "include/a.h", "lib/a.a", "share/doc/a", ".build-id/a/b.debug")
    assert emitted(project.tree) == {name: {STAGE: {}} for name in ("lib", "dbg", "dev", "doc")}


def test_engine_content_leaves_the_target_open(project: Project) -> None:
    project.files(
        "lib/engines/libhost.so",
        "lib/engines/arch_content/rocke/gfx942/a.json",
        "lib/engines/arch_content/aiter/gfx950/b.csv",
        "lib/rocblas/library/gfx942/c.dat",
        "lib/hipblaslt/library/Kernels_gfx942.dat",
        "lib/hipblaslt/library/Kernels_gfx1201.dat",
    )
    assert emitted(project.tree)["lib"][STAGE] == {
        "include": [
            "**/engines/arch_content/**",
            "lib/hipblaslt/library/Kernels_gfx*.dat",
            "lib/rocblas/library/*/**",
        ]
    }


def test_exact_lists_every_file_and_nothing_else(project: Project) -> None:
    project.files("lib/a.so", "lib/engines/arch_content/rocke/gfx942/a.json")
    assert emitted(project.tree, exact=True)["lib"][STAGE] == {
        "default_patterns": False,
        "include": ["lib/a.so", "lib/engines/arch_content/rocke/gfx942/a.json"],
    }


def test_folders_that_hold_one_components_files_alone_are_named_whole(project: Project) -> None:
    project.files("bin/a", "bin/b", "share/x/db/c", "share/x/db/d", "lib/e.so", "lib/f.txt")
    components = emitted(project.tree)
    assert components["run"][STAGE] == {"include": ["bin/**"]}
    assert components["lib"][STAGE] == {"include": ["lib/f.txt", "share/x/db/**"]}


def test_files_keep_the_component_that_holds_them(tmp_path: Path) -> None:
    tree = tmp_path / "set"
    artifact_directory(tree, "x_lib_generic", [f"{STAGE}/lib/a.so"])
    artifact_directory(tree, "x_test_generic", [f"{STAGE}/lib/b.so", f"{STAGE}/bin/t"])
    artifact_directory(tree, "x_run_generic", [f"{STAGE}/include/tool.h"])
    components = emitted(tree)
    assert components["lib"][STAGE] == {"default_patterns": False, "include": ["lib/a.so"]}
    assert components["run"][STAGE] == {"include": ["include/tool.h"]}
    assert components["test"][STAGE] == {"include": ["bin/t", "lib/b.so"]}


def test_a_component_of_split_archives_alone_does_not_take_everything(tmp_path: Path) -> None:
    tree = tmp_path / "set"
    artifact_directory(tree, "x_run_gfx942", [f"{STAGE}/.kpack/x_run_gfx942.kpack"])
    artifact_directory(tree, "x_dev_generic", [f"{STAGE}/include/a.h"])
    assert emitted(tree)["run"][STAGE] == {"include": [".kpack/x_run_gfx942.kpack"]}


def test_wildcards_in_names_become_stars_that_take_nothing_else(project: Project) -> None:
    project.files("share/a?b", "share/a*c", "share/plain.so")
    assert emitted(project.tree)["lib"][STAGE] == {"include": ["share/a*b", "share/a*c"]}


def test_names_that_no_pattern_tells_apart_are_refused(tmp_path: Path) -> None:
    tree = tmp_path / "set"
    artifact_directory(tree, "x_lib_generic", [f"{STAGE}/a?"])
    artifact_directory(tree, "x_run_generic", [f"{STAGE}/ab"])
    report = emit(str(tree), str(tmp_path / "out"), SETTINGS)
    assert names(report) == {"descriptor-uncaptured"}
    assert not (tmp_path / "out").exists()


def test_a_component_that_descriptors_do_not_have_is_refused(tmp_path: Path) -> None:
    artifact_directory(tmp_path / "set", "x_libs_generic", [f"{STAGE}/a"])
    report = emit(str(tmp_path / "set"), str(tmp_path / "out"), SETTINGS)
    assert "'libs' is no component" in only(report, "descriptor-invalid").message


@pytest.mark.parametrize("other", ["lib/a.txt", "lib/a.txt/b", "lib"])
def test_one_path_in_two_stage_directories_is_refused(project: Project, other: str) -> None:
    project.files("lib/a.txt").files(other, stage=OTHER)
    report = emit(str(project.tree), str(project.root / "out"), SETTINGS, EmitOptions(artifact="x"))
    assert names(report) == {"descriptor-overlap"}


def test_names_that_toml_and_patterns_cannot_spell_are_refused(project: Project) -> None:
    project.files("lib/a\nb")
    report = emit(str(project.tree), str(project.root / "out"), SETTINGS)
    assert only(report, "bad-path").path == f"{STAGE}/lib/a\\nb"


def test_quotes_and_backslashes_are_escaped(project: Project) -> None:
    project.files('share/a"b')
    assert emitted(project.tree)["lib"][STAGE] == {"include": ['share/a"b']}


def test_the_text_does_not_depend_on_the_order_of_the_file_system(tmp_path: Path) -> None:
    for name, paths in (("one", ["b", "a", "c/d"]), ("two", ["c/d", "a", "b"])):
        Project(tmp_path / name).files(*paths)
        emit(str(tmp_path / name / "build"), str(tmp_path / name / "artifact-x.toml"), SETTINGS)
    assert (tmp_path / "one/artifact-x.toml").read_bytes() == (tmp_path / "two/artifact-x.toml").read_bytes()


def test_a_comment_says_how_it_was_made(project: Project) -> None:
    project.files("lib/a.so")
    emit(str(project.tree), str(project.root), SETTINGS)
    first = (project.root / "artifact-x.toml").read_text().splitlines()[0]
    assert first.startswith("# x: made by kpacktools")
    assert first.endswith("(artifacts emit) from build, 1 file")


def test_every_artifact_of_a_set_gets_its_descriptor(tmp_path: Path) -> None:
    for name in ("x", "y"):
        artifact_directory(tmp_path / "set", f"{name}_lib_generic", [f"{STAGE}/lib/a.so"])
    report = emit(str(tmp_path / "set"), str(tmp_path / "out"), SETTINGS)
    assert [Path(output.path).name for output in report.outputs] == ["artifact-x.toml", "artifact-y.toml"]
    assert {output.kind for output in report.outputs} == {"descriptor"}


def test_one_artifact_of_a_set_goes_to_a_file(tmp_path: Path) -> None:
    for name in ("x", "y"):
        artifact_directory(tmp_path / "set", f"{name}_lib_generic", [f"{STAGE}/lib/a.so"])
    report = emit(str(tmp_path / "set"), str(tmp_path / "y.toml"), SETTINGS, EmitOptions(artifact="y"))
    assert [output.path for output in report.outputs] == [str(tmp_path / "y.toml")]


def test_what_merge_wrote_is_described_whole(tmp_path: Path) -> None:
    shards = []
    for target in ("gfx942", "gfx950"):
        shard = Build(tmp_path / target, target).host()
        shard.rocke(target)
        shards.append(str(shard.root))
    merged = tmp_path / "merged"
    assert merge(shards, str(merged), SETTINGS).ok
    assert emitted(merged) == {
        "lib": {"ml-libs/hipkernelprovider/stage": {"include": ["**/engines/arch_content/**"]}}
    }


def test_an_install_prefix_becomes_the_stage_directory_that_it_is_given(tmp_path: Path) -> None:
    prefix = tmp_path / "prefix"
    shard = Build(tmp_path / "gfx942", "gfx942").host()
    shard.rocke("gfx942")
    assert split(str(shard.root), str(tmp_path / "parts"), SETTINGS, MergeOptions()).ok
    assert merge([str(tmp_path / "parts")], str(prefix), SETTINGS, MergeOptions(flatten=True)).ok
    out = tmp_path / "artifact-hipkernelprovider.toml"
    stage = "ml-libs/hipkernelprovider/stage"
    options = EmitOptions(artifact="hipkernelprovider", stages=(stage,))
    assert emit(str(prefix), str(out), SETTINGS, options).ok
    assert check([str(out)], str(tmp_path / "parts"), SETTINGS, platform="linux").findings == ()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "holds the stage directories ml-libs/x/stage, ml-libs/y/stage: say with --artifact NAME"),
        ({"stages": (STAGE, "none")}, "--stage none: "),
        ({"stages": ("no", "none")}, "holds none of the stage directories no, none"),
    ],
)
def test_what_a_build_tree_holds_must_be_said(
    project: Project, options: dict[str, object], said: str
) -> None:
    project.files("a").files("b", stage=OTHER)
    with pytest.raises(CallError, match=said):
        emit(str(project.tree), str(project.root / "out"), SETTINGS, EmitOptions(**options))  # type: ignore[arg-type]


def test_several_descriptors_do_not_fit_into_a_file(tmp_path: Path) -> None:
    for name in ("x", "y"):
        artifact_directory(tmp_path / "set", f"{name}_lib_generic", [f"{STAGE}/lib/a.so"])
    with pytest.raises(CallError, match="there are 2 descriptors to write"):
        emit(str(tmp_path / "set"), str(tmp_path / "a.toml"), SETTINGS)


def test_a_descriptor_that_is_there_is_kept_or_replaced_on_request(project: Project) -> None:
    project.files("lib/a.so")
    out = project.root / "out"

    def states(**options: bool) -> list[str]:
        return [o.state for o in emit(str(project.tree), str(out), SETTINGS, EmitOptions(**options)).outputs]

    assert states(dry_run=True) == ["planned"]
    assert not out.exists()
    assert states() == ["written"]
    assert states() == states(dry_run=True) == ["kept"]
    (out / "artifact-x.toml").write_text("edited by hand\n")
    for dry_run in (True, False):
        with pytest.raises(CallError, match="is there already with other content"):
            states(dry_run=dry_run)
    assert states(dry_run=True, replace=True) == states(replace=True) == ["replaced"]
