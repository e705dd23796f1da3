"""Files that people write: policies, shards files, lock files, descriptors, topologies, CMake files, and JSON reports.

The first byte of an input says which of them it is.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, Final

import tomli_w
from inspecting import shown
from targets import HERE, changed_bytes, changed_document, say_one_line

from kpacktools.descriptors.checking import apply_descriptor, check_capture, starved_components
from kpacktools.descriptors.discovery import provided_artifacts
from kpacktools.descriptors.model import read_descriptor
from kpacktools.descriptors.overlaps import check_overlaps
from kpacktools.descriptors.staged import Staged
from kpacktools.diffing.reportfile import read_report
from kpacktools.errors import CallError
from kpacktools.findings import Finding
from kpacktools.lanes import default_lanes
from kpacktools.locking.lockfile import as_toml, read_lock
from kpacktools.policy import load_policy
from kpacktools.reports.model import Report
from kpacktools.targets import default_targets
from kpacktools.topology.mermaid import as_mermaid
from kpacktools.topology.model import read_topology
from kpacktools.topology.rules import check_handlers, check_topology
from kpacktools.topology.svg import as_svg
from kpacktools.trees.shardsfile import read_shards_file

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_STAGED: Final = ("lib/liba.so", "lib/a.a", "include/a.h", "share/doc/a/x.txt", "bin/a")


def _policy(path: str) -> None:
    policy = load_policy(path)
    policy.targets().key("gfx942")
    policy.neutral_rule("blas", "lib")


def _shards(path: str) -> None:
    read_shards_file(path, default_targets())


def _lock(path: str) -> None:
    again = as_toml(read_lock(path, default_lanes()))
    Path(path).write_text(again, "utf-8")
    assert as_toml(read_lock(path, default_lanes())) == again


def _descriptor(path: str) -> None:
    descriptor, findings = read_descriptor(path, "x")
    found = list(findings)
    if descriptor is not None:
        stages = dict.fromkeys(descriptor.stages()[:20], _STAGED)
        applied = apply_descriptor(descriptor, Staged("tree", stages))
        found += [
            *starved_components(descriptor),
            *check_capture(applied, "linux"),
            *check_overlaps([applied, applied]),
        ]
    _show(found)


def _topology(path: str) -> None:
    topology, findings = read_topology(path)
    found = list(findings)
    if topology is not None:
        found += [*check_topology(topology), *check_handlers(topology, {"rocke", "aiter"})]
        as_mermaid(topology)
        as_svg(topology)
    _show(found)


def _show(findings: list[Finding]) -> None:
    shown(Report("topology check", tuple(findings)))


_KINDS: Final[dict[str, Callable[[str], object]]] = {
    "policy": _policy,
    "shards": _shards,
    "lock": _lock,
    "descriptor": _descriptor,
    "topology": _topology,
    "cmake": lambda path: list(provided_artifacts(path)),
    "report": read_report,
}
_NAMES: Final = tuple(_KINDS)


def run(data: bytes) -> None:
    if not data:
        return
    kind = _NAMES[data[0] % len(_NAMES)]
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / f"file.{'json' if kind == 'report' else 'toml'}"
        path.write_bytes(data[1:])
        try:
            _KINDS[kind](str(path))
        except CallError as error:
            say_one_line(error)


def seeds() -> Iterator[bytes]:
    root = HERE.parents[1]
    for kind, text in _texts():
        yield bytes([_NAMES.index(kind)]) + text.encode()
    for path in sorted(root.glob("artifacts/artifact-*.toml"))[:3]:
        yield bytes([_NAMES.index("descriptor")]) + path.read_bytes()
    yield bytes([_NAMES.index("topology")]) + (root / "topology/BUILD_TOPOLOGY.toml").read_bytes()[:4000]


def _texts() -> Iterator[tuple[str, str]]:
    yield "policy", (HERE / "policy.toml").read_text("utf-8")
    yield "shards", '[[shard]]\nname = "one"\npath = "gfx942"\ntargets = ["gfx94X-dcgpu"]\nrun = 17\n'
    kernels = f'kernels = 1\ndigest = "sha256:{"0" * 64}"\nnames = ["a 000000000000"]\n'
    bundle = f'[[bundle]]\nengine = "rocke"\nkey = "gfx942"\nlane = "llvm22"\n{kernels}'
    yield "lock", f'schema = "kpacktools.lock/v1"\n[lanes.llvm24]\nalias = "llvm23"\n{bundle}'
    stage = 'include = ["lib/**/*.so", "a?b*c"]\nexclude = "x"\nforce_include = []\noptional = ["windows"]\n'
    options = '[options]\nunmatched_exclude = ["share/**"]\n'
    yield "descriptor", f'[components.lib."a/stage"]\n{stage}[components.test]\nextends = ["lib"]\n{options}'
    yield (
        "cmake",
        "# x\ntherock_provide_artifact(blas TARGET_NEUTRAL DESCRIPTOR artifact.toml COMPONENTS dev lib)\n",
    )
    bundles = [
        {
            "engine": "rocke",
            "key": "gfx942",
            "files": 1,
            "bytes": 2,
            "kernels": 3,
            "compiler_counts": {"x": 1},
        }
    ]
    yield "report", json.dumps({"schema": "kpacktools.report/v1", "bundles": bundles})


def change(data: bytes, random: Random) -> bytes:
    head, body = data[:1], data[1:]
    is_json = data and _NAMES[data[0] % len(_NAMES)] == "report"
    try:
        document: Any = json.loads(body) if is_json else tomllib.loads(body.decode())
        changed = changed_document(document, random)
        return head + (json.dumps(changed) if is_json else tomli_w.dumps(changed)).encode()
    except (ValueError, TypeError, AttributeError, RecursionError):
        return head + changed_bytes(body, random)
