"""Shards as real builds leave them: refused without a policy, merged with one of ten lines."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest
from msgspec.structs import replace

from builders import contents, names, only
from kpacktools.commands import MergeOptions, inspect, merge
from kpacktools.errors import CallError
from kpacktools.pipeline import Settings
from kpacktools.policy import load_policy
from realistic import ARTIFACTS, COMPONENTS, POLICY, TARGETS, make_gfx906, make_shard


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    root = tmp_path_factory.mktemp("builds")
    return [*(str(make_shard(root, target)) for target in TARGETS), str(make_gfx906(root))]


@pytest.fixture
def allowed(settings: Settings, tmp_path: Path) -> Settings:
    path = tmp_path / "policy.toml"
    path.write_text(POLICY)
    assert len(POLICY.splitlines()) <= 10
    return replace(settings, policy=load_policy(str(path)))


def test_without_a_policy_they_are_refused_with_hints_at_one(
    shards: list[str], tmp_path: Path, settings: Settings
) -> None:
    report = merge(shards, str(tmp_path / "out"), settings)
    assert not report.ok
    errors = Counter(f.name for f in report.findings if f.severity.value == "error")
    assert errors == {"content-conflict": 3, "foreign-target": 2}
    assert {os.path.basename(f.path) for f in report.findings if f.name == "content-conflict"} == {
        "librocblas.so",
        "TensileManifest.txt",
        "librocblas.so.debug",
    }
    assert "--primary SHARD" in next(f.hint for f in report.findings if f.path.endswith("librocblas.so"))
    assert '[[foreign]] engine = "rocblas", keys = ["gfx906"]' in next(
        f.hint for f in report.findings if f.name == "foreign-target"
    )
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("primary", ["gfx942", "gfx1201"])
def test_with_ten_lines_of_policy_they_merge(
    shards: list[str], tmp_path: Path, allowed: Settings, primary: str
) -> None:
    out = tmp_path / "out"
    report = merge(shards, str(out), allowed, MergeOptions(primary=primary))
    assert report.ok, report.findings
    assert report.counts.balanced()
    assert report.counts.files_filtered == 2
    # librocblas.so, TensileManifest.txt, librocblas.so.debug and the file under .build-id, of two shards each
    assert report.counts.files_superseded == 8
    assert Counter(f.name for f in report.findings) == {"generic-superseded": 8}
    reasons = {f.message.rpartition(": ")[2] for f in report.findings if f.name == "generic-superseded"}
    assert reasons == {"build ids and fall-back tuning differ by machine"}
    assert [note for note in report.notes if "always adds gfx906" in note]
    taken = next(out.rglob("librocblas.so"))
    source = next(Path(shards[TARGETS.index(primary)]).rglob("librocblas.so"))
    assert taken.read_bytes() == source.read_bytes()
    (debug,) = [path for path in out.rglob("*.debug") if ".build-id" in str(path)]
    assert (
        debug.read_bytes()
        == next(
            p for p in Path(shards[TARGETS.index(primary)]).rglob("*.debug") if ".build-id" in str(p)
        ).read_bytes()
    )


def test_every_artifact_and_component_has_its_parts(
    shards: list[str], tmp_path: Path, allowed: Settings
) -> None:
    out = tmp_path / "out"
    merge(shards, str(out), allowed, MergeOptions(primary="gfx942"))
    made = set(os.listdir(out))
    assert {f"{name}_{component}_generic" for name in ARTIFACTS for component in COMPONENTS} <= made
    assert made - {f"{name}_{component}_generic" for name in ARTIFACTS for component in COMPONENTS} == {
        f"{name}_lib_{target}" for name in ("blas", "miopen", "hipkernelprovider") for target in TARGETS
    } | {"blas_lib_gfx906"}
    manifest = (out / "blas_lib_gfx950/artifact_manifest.txt").read_text()
    assert manifest.splitlines() == list(ARTIFACTS["blas"])


def test_any_order_gives_the_same_bytes(shards: list[str], tmp_path: Path, allowed: Settings) -> None:
    for name, order in (("one", shards), ("two", shards[::-1])):
        assert merge(order, str(tmp_path / name), allowed, MergeOptions(primary="gfx950")).ok
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_a_policy_without_a_primary_says_what_is_missing(
    shards: list[str], tmp_path: Path, allowed: Settings
) -> None:
    report = merge(shards, str(tmp_path / "out"), allowed)
    conflicts = [f for f in report.findings if f.path.endswith("librocblas.so")]
    assert "--primary" in conflicts[0].hint
    with pytest.raises(CallError, match="no such shard; the inputs are gfx1201, gfx906, gfx942, gfx950"):
        merge(shards, str(tmp_path / "out"), allowed, MergeOptions(primary="gfx908"))


SHARDS_FILE = """\
[[shard]]
name = "mi300"
path = "{0}"
targets = ["gfx94X-dcgpu"]
run = 17
[[shard]]
path = "{1}"
run = "{run}"
"""


@pytest.mark.parametrize(("run", "expected"), [("17", set()), ("18", {"mixed-runs"})])
def test_a_shards_file_names_shards_targets_and_runs(
    shards: list[str], tmp_path: Path, settings: Settings, run: str, expected: set[str]
) -> None:
    file = tmp_path / "release.toml"
    file.write_text(SHARDS_FILE.format(os.path.relpath(shards[0], tmp_path), shards[1], run=run))
    report = merge([], str(tmp_path / "out"), settings, MergeOptions(shards_file=str(file), dry_run=True))
    assert [(i.shard, i.targets) for i in report.inputs] == [("gfx950", ("gfx950",)), ("mi300", ("gfx942",))]
    assert names(report) >= expected
    assert ("mixed-runs" in names(report)) == bool(expected)
    if expected:
        assert "run 17: mi300" in only(report, "mixed-runs").message


def test_a_shards_files_targets_replace_the_suffixes(
    shards: list[str], tmp_path: Path, settings: Settings
) -> None:
    file = tmp_path / "release.toml"
    file.write_text(
        f'[[shard]]\npath = "{shards[0]}"\ntargets = ["gfx942", "gfx906"]\n[[shard]]\npath = "{shards[3]}"\n'
    )
    report = merge([], str(tmp_path / "out"), settings, MergeOptions(shards_file=str(file)))
    assert "content-conflict" in names(report)
    assert "foreign-target" not in names(report)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[[shard]]\nname = 3\n",
        "[[shard]]\npath = 'x'\ncolour = 'red'\n",
        "[[shard]]\npath = 'x'\ntargets = ['gfx17z']\n",
        "[[shard]]\npath = 'x'\nname = 'a'\n[[shard]]\npath = 'y'\nname = 'a'\n",
        "not toml",
    ],
)
def test_a_shards_file_that_says_nonsense_is_a_call_error(
    tmp_path: Path, settings: Settings, text: str
) -> None:
    file = tmp_path / "release.toml"
    file.write_text(text)
    with pytest.raises(CallError, match="--shards"):
        merge([], str(tmp_path / "out"), settings, MergeOptions(shards_file=str(file)))


def test_no_input_at_all_is_a_call_error(tmp_path: Path, settings: Settings) -> None:
    with pytest.raises(CallError, match="no input is named"):
        merge([], str(tmp_path / "out"), settings)


def test_inspect_of_the_merged_release_finds_nothing(
    shards: list[str], tmp_path: Path, allowed: Settings
) -> None:
    merge(shards, str(tmp_path / "out"), allowed, MergeOptions(primary="gfx942"))
    report = inspect([str(tmp_path / "out")], replace(allowed, depth=allowed.depth))
    assert report.findings == ()
