"""Small topologies for the tests of topologies."""

from __future__ import annotations

from pathlib import Path

from kpacktools.pipeline import Settings
from kpacktools.reports.model import Report
from kpacktools.topology.check import check
from kpacktools.topology.model import Topology, read_topology

GOOD = """\
[metadata]
version = "2.0"
description = "a test"

[source_sets.libraries]
description = "d"
submodules = ["rocm-libraries"]
external_git_sources = [{ name = "hrx", origin = "o", commit = "c", path = "optional-sources/hrx" }]
disable_platforms = ["windows"]
path_prefixes = ["projects/"]

[build_stages.runtime]
description = "d"
artifact_groups = ["core"]

[build_stages.math]
description = "d"
artifact_groups = ["blas-libs"]
type = "per-arch"

[artifact_groups.core]
description = "d"
type = "generic"

[artifact_groups.blas-libs]
description = "d"
type = "per-arch"
artifact_group_deps = ["core"]
source_sets = ["libraries"]

[artifacts.hip]
artifact_group = "core"
type = "target-neutral"
feature_name = "HIP_RUNTIME"
feature_group = "CORE"
platform = "linux"
disable_platforms_if_flags_not_set = { windows = "SHARED" }
disable_processors = ["ppc64le"]
test_artifacts = ["blas"]

[artifacts.blas]
artifact_group = "blas-libs"
type = "target-specific"
artifact_deps = ["hip"]
disable_platforms = ["windows"]
python_requires = ["-r requirements.txt"]
split_databases = ["rocblas"]
source_paths = ["projects/rocblas"]
"""
"""Every key of the format, and nothing wrong."""


class Checkout:
    """A topology, descriptors and CMake files."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.path = root / "BUILD_TOPOLOGY.toml"
        self.path.write_text(GOOD)

    def put(self, path: str, text: str = "") -> Checkout:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return self

    def replace(self, old: str, new: str) -> Checkout:
        """Change the topology's text."""
        text = self.path.read_text()
        assert old in text
        self.path.write_text(text.replace(old, new, 1))
        return self

    def add(self, text: str) -> Checkout:
        """Add to the topology's text."""
        self.path.write_text(self.path.read_text() + text)
        return self

    def check(self, *mapped: str, descriptors: bool = False, tree: Path | None = None) -> Report:
        return check(
            str(self.path),
            Settings(),
            descriptors=str(self.root) if descriptors or mapped else None,
            mapped=[pair.replace("ROOT", str(self.root)) for pair in mapped],
            tree=None if tree is None else str(tree),
        )

    def messages(self, *mapped: str, descriptors: bool = False) -> list[str]:
        return [finding.message for finding in self.check(*mapped, descriptors=descriptors).findings]

    def topology(self) -> Topology:
        topology, findings = read_topology(str(self.path))
        assert findings == ()
        assert topology is not None
        return topology
