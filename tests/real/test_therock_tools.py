"""What therock-tools, TheRock's own tools from PyPI, make of descriptors and topologies that are written here."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from builders import contents, names, only
from kpacktools.commands import merge, split
from kpacktools.data import data_path
from kpacktools.descriptors.check import check
from kpacktools.descriptors.dialect import therock_pattern
from kpacktools.descriptors.emit import EmitOptions, emit
from kpacktools.descriptors.emitting import default_component
from kpacktools.descriptors.model import COMPONENTS
from kpacktools.pipeline import Settings
from realistic import ARTIFACTS, make_shard

fileset_tool = pytest.importorskip("therock_tools.fileset_tool")
pattern_match = pytest.importorskip("therock_tools.pattern_match")

EXAMPLES = Path(__file__).parents[2] / "examples" / "shards"
SHORT = hypothesis_settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)


def fileset_artifact(root: Path, descriptor: Path, artifact: str, out: Path) -> dict[str, set[str]]:
    """Component -> the files that TheRock's ``fileset_tool artifact`` puts into it."""
    arguments = [argument for name in COMPONENTS for argument in (name, str(out / name))]
    fileset_tool.main(
        [
            "artifact",
            "--root-dir",
            str(root),
            "--descriptor",
            str(descriptor),
            "--artifact-name",
            artifact,
            *arguments,
        ]
    )
    found = {name: {path.replace(os.sep, "/") for path in contents(out / name)} for name in COMPONENTS}
    return {name: paths - {"artifact_manifest.txt"} for name, paths in found.items()}


def by_component(root: Path, artifact: str = "*") -> dict[str, set[str]]:
    """Component -> the files of its artifact directories."""
    found: dict[str, set[str]] = {name: set() for name in COMPONENTS}
    for folder in root.glob(f"{artifact}_*"):
        found[folder.name.split("_")[1]] |= set(contents(folder)) - {"artifact_manifest.txt"}
    return found


def put(root: Path, path: str) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"")


def build_tree(root: Path, artifacts: Path) -> Path:
    """The build tree that artifact directories were taken from."""
    for folder in artifacts.iterdir():
        shutil.copytree(folder, root, symlinks=True, dirs_exist_ok=True)
    (root / "artifact_manifest.txt").unlink()
    return root


@pytest.mark.parametrize("exact", [False, True])
def test_fileset_tool_captures_what_a_descriptor_was_emitted_for(
    tmp_path: Path, settings: Settings, exact: bool
) -> None:
    merged = tmp_path / "merged"
    assert merge([str(path) for path in EXAMPLES.iterdir()], str(merged), settings).ok
    assert emit(str(merged), str(tmp_path), settings, EmitOptions(exact=exact)).ok
    root = build_tree(tmp_path / "build", merged)
    descriptor = tmp_path / "artifact-hipkernelprovider.toml"
    captured = fileset_artifact(root, descriptor, "hipkernelprovider", tmp_path / "out")
    assert captured == by_component(merged)
    assert len(captured["lib"]) == 37


def test_fileset_tool_captures_many_artifacts_with_all_their_components(
    tmp_path: Path, settings: Settings
) -> None:
    shard = make_shard(tmp_path, "gfx942")
    for second in shard.glob(f"blas_*/{ARTIFACTS['blas'][1]}"):
        shutil.rmtree(second)  # its files have the paths of the first stage directory's
    assert emit(str(shard), str(tmp_path), settings).ok
    root = build_tree(tmp_path / "build", shard)
    for name in ARTIFACTS:
        captured = fileset_artifact(root, tmp_path / f"artifact-{name}.toml", name, tmp_path / "out" / name)
        assert captured == by_component(shard, name), name


NAMES = st.sampled_from(
    [
        "a",
        "b.so",
        "c.so.1",
        "d.a",
        "e.h",
        "x y",
        "[z]",
        "w*",
        "q?",
        "g_gfx942.dat",
        "bin",
        "share",
        "doc",
        "include",
    ]
)
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)
ENGINE_PATHS = st.tuples(
    st.sampled_from(["lib/engines/arch_content/rocke", "lib/rocblas/library", "arch_content/aiter"]),
    st.sampled_from(["gfx942", "gfx1201"]),
    PATHS,
).map("/".join)
KPACKS = st.sampled_from(
    [".kpack/x_lib_gfx942.kpack", ".kpack/x_run_gfx942.kpack", ".kpack/y_lib_gfx942.kpack"]
)
STAGES = st.dictionaries(
    st.sampled_from(["ml-libs/a/stage", "ml-libs/b/stage"]),
    st.sets(st.one_of(PATHS, ENGINE_PATHS, KPACKS), min_size=1, max_size=12),
    min_size=1,
)


def is_possible(files: set[str]) -> bool:
    """No file is another one's folder."""
    return not any(other.startswith(path + "/") for path in files for other in files)


@SHORT
@given(stages=STAGES, exact=st.booleans())
def test_fileset_tool_captures_exactly_the_files_of_any_build_tree(
    stages: dict[str, set[str]], exact: bool
) -> None:
    assume(all(map(is_possible, stages.values())))
    settings = Settings()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for stage, files in stages.items():
            for path in files:
                put(root / "build", f"{stage}/{path}")
        options = EmitOptions(artifact="x", stages=tuple(stages), exact=exact)
        report = emit(str(root / "build"), str(root / "artifact-x.toml"), settings, options)
        assume(report.ok)
        captured = fileset_artifact(root / "build", root / "artifact-x.toml", "x", root / "out")
        assert set().union(*captured.values()) == set(contents(root / "build"))
        assert sum(map(len, captured.values())) == sum(map(len, stages.values()))
        checked = check([str(root / "artifact-x.toml")], str(root / "build"), settings, platform="linux")
        assert checked.findings == ()


@SHORT
@given(
    files=st.dictionaries(
        st.one_of(PATHS, ENGINE_PATHS), st.sampled_from(COMPONENTS), min_size=1, max_size=14
    ),
    exact=st.booleans(),
)
def test_fileset_tool_puts_files_into_the_components_they_came_from(
    files: dict[str, str], exact: bool
) -> None:
    assume(is_possible(set(files)))
    settings = Settings()
    stage = "ml-libs/a/stage"
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for path, component in files.items():
            put(root / "build", f"{stage}/{path}")
            put(root / f"set/x_{component}_generic", f"{stage}/{path}")
            (root / f"set/x_{component}_generic/artifact_manifest.txt").write_text(stage + "\n")
        report = emit(str(root / "set"), str(root), settings, EmitOptions(exact=exact))
        assume(report.ok)
        captured = fileset_artifact(root / "build", root / "artifact-x.toml", "x", root / "out")
        assert captured == by_component(root / "set")
        for tree in ("build", "set"):
            assert (
                check([str(root / "artifact-x.toml")], str(root / tree), settings, platform="linux").findings
                == ()
            )


@SHORT
@given(
    pattern=st.lists(
        st.sampled_from(["**", "*", "a", "a?", "*.so", "?", "**x", ""]), min_size=1, max_size=4
    ).map("/".join),
    path=st.lists(st.sampled_from(["a", "b", "ab", "x.so", "axxb"]), min_size=1, max_size=4).map("/".join),
)
def test_therocks_reading_of_a_pattern_is_known(pattern: str, path: str) -> None:
    theirs = pattern_match.RecursiveGlobPattern(pattern).matches(path, None)
    assert (therock_pattern(pattern).match(path) is not None) == theirs


def test_default_components_are_those_of_therock(tmp_path: Path) -> None:
    """A descriptor that names every component without a pattern, but run and test, which would take everything."""
    paths = [
        "lib/a.so",
        "lib/a.a",
        "bin/a.dll",
        ".build-id/ab/c.debug",
        "share/doc/a.txt",
        "include/cmake/x",
        "x.lib",
    ]
    for path in paths:
        put(tmp_path / "build/s/stage", path)
    text = "".join(f'[components.{name}."s/stage"]\n' for name in COMPONENTS if name not in ("run", "test"))
    (tmp_path / "artifact-x.toml").write_text(text)
    captured = fileset_artifact(tmp_path / "build", tmp_path / "artifact-x.toml", "x", tmp_path / "out")
    for path in paths:
        component = default_component("x", path, engine_content=False)
        assert f"s/stage/{path}" in captured[component], path


def test_fileset_tool_keeps_one_of_two_files_with_one_path_as_check_says(tmp_path: Path) -> None:
    for stage in ("a/stage", "b/stage"):
        put(tmp_path / "build", f"{stage}/lib/x.so")
    descriptor = tmp_path / "artifact-x.toml"
    descriptor.write_text('[components.lib."a/stage"]\n[components.lib."b/stage"]\n')
    captured = fileset_artifact(tmp_path / "build", descriptor, "x", tmp_path / "out")
    assert captured["lib"] == {"a/stage/lib/x.so"}
    report = check([str(descriptor)], str(tmp_path / "build"), Settings(), platform="linux")
    assert names(report) == {"descriptor-overlap"}


def test_fileset_tool_starves_components_as_check_says(tmp_path: Path) -> None:
    for path in ("lib/x.so", "include/x.h", "bin/x"):
        put(tmp_path / "build/a/stage", path)
    descriptor = tmp_path / "artifact-x.toml"
    descriptor.write_text("".join(f'[components.{name}."a/stage"]\n' for name in ("lib", "run", "dev")))
    captured = fileset_artifact(tmp_path / "build", descriptor, "x", tmp_path / "out")
    assert captured["dev"] == set()
    assert captured["run"] == {"a/stage/include/x.h", "a/stage/bin/x"}
    report = check([str(descriptor)], str(tmp_path / "build"), Settings(), platform="linux")
    assert "nothing remains for dev" in only(report, "descriptor-invalid").message


def test_fileset_tool_reads_the_descriptors_that_ship_with_the_package(
    tmp_path: Path, settings: Settings
) -> None:
    merged = tmp_path / "merged"
    assert merge([str(path) for path in EXAMPLES.iterdir()], str(merged), settings).ok
    root = build_tree(tmp_path / "build", merged)
    descriptor = data_path("artifacts", "artifact-hipkernelprovider.toml")
    captured = fileset_artifact(root, descriptor, "hipkernelprovider", tmp_path / "out")
    assert captured == by_component(merged)


def test_therocks_own_validator_finds_nothing_in_the_topology_that_ships_with_the_package() -> None:
    build_topology = pytest.importorskip("therock_tools.build_topology")
    topology = build_topology.BuildTopology(str(data_path("topology", "BUILD_TOPOLOGY.toml")))
    assert topology.validate_topology() == []
    assert topology.get_produced_artifacts("comm-libs") == {"rccl"}


def test_shards_that_are_pushed_under_names_of_their_own_merge_into_a_release(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = pytest.importorskip("therock_tools.artifact_manager")
    monkeypatch.delenv("THEROCK_LOCAL_STAGING_DIR", raising=False)
    topology = str(data_path("topology", "BUILD_TOPOLOGY.toml"))
    common = ["--topology", topology, "--platform", "linux", "--local-staging-dir", str(tmp_path / "staging")]
    shards = []
    for target in ("gfx942", "gfx950"):
        build = tmp_path / f"build-{target}"
        assert split(str(EXAMPLES / target), str(build / "artifacts"), settings).ok
        run = ["--run-id", f"1-{target}"]
        manager.main(["push", *common, *run, "--stage", "device-libs", "--build-dir", str(build)])
        shards.append(str(tmp_path / "shards" / target))
        where = ["--output-dir", str(tmp_path / "in"), "--download-cache-dir", shards[-1]]
        manager.main(["fetch", *common, *run, "--no-extract", "--amdgpu-targets", target, *where])
    monkeypatch.delenv("THEROCK_LOCAL_STAGING_DIR", raising=False)  # which the tool itself sets
    report = merge(shards, str(tmp_path / "release"), settings)
    assert report.ok, report.findings
    assert {output.key for output in report.outputs} == {"generic", "gfx942", "gfx950"}
    assert (report.counts.files_in, report.counts.files_out) == (28, 27)
