"""The topology and descriptors that ship with the package pass its own checks."""

from __future__ import annotations

from pathlib import Path

import pytest

from kpacktools.commands import merge
from kpacktools.data import data_path
from kpacktools.descriptors.check import check as check_descriptors
from kpacktools.pipeline import Settings
from kpacktools.plugins import load_registry
from kpacktools.topology.check import check
from kpacktools.topology.model import read_topology

TOPOLOGY = str(data_path("topology", "BUILD_TOPOLOGY.toml"))
ARTIFACTS = str(data_path("artifacts"))


@pytest.fixture(scope="module")
def merged(tmp_path_factory: pytest.TempPathFactory) -> str:
    out = str(tmp_path_factory.mktemp("release") / "merged")
    assert merge([str(path) for path in data_path("examples", "shards").iterdir()], out, Settings()).ok
    return out


def test_it_agrees_with_its_descriptors_and_with_the_example_shards(merged: str) -> None:
    assert check(TOPOLOGY, Settings(), descriptors=ARTIFACTS, tree=merged).findings == ()


def test_the_descriptors_capture_the_example_shards(merged: str) -> None:
    report = check_descriptors([ARTIFACTS], merged, Settings(), platform="linux")
    assert report.ok
    assert {finding.severity.value for finding in report.findings} <= {"info"}
    assert report.counts.files_in == report.counts.files_out == 37


def test_every_handler_is_named_by_an_artifact() -> None:
    topology, findings = read_topology(TOPOLOGY)
    assert findings == ()
    assert topology is not None
    named = {name for artifact in topology.artifacts.values() for name in artifact.split_databases}
    # The archives that rocm_kpack splits off need no word in a topology.
    assert named | {"kpack"} == {handler.name for handler in load_registry([]).handlers}


def test_every_artifact_has_one_descriptor() -> None:
    topology, _ = read_topology(TOPOLOGY)
    assert topology is not None
    files = {path.name for path in Path(ARTIFACTS).iterdir()}
    assert files == {f"artifact-{name}.toml" for name in topology.artifacts}
