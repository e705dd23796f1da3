"""Ratios inside one process: claiming against a bare scan, validating a manifest against ``json.loads``.

    python benchmarks/micro.py

Each figure is the best of several alternating runs; the ratio is what counts.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from kpacktools import manifests
from kpacktools.planning.claims import Claimer
from kpacktools.plugins import load_registry
from kpacktools.targets import default_targets
from kpacktools.trees.directory import scan_directory
from kpacktools.trees.opening import open_shard

FILES = 100_000
ENTRIES = 10_000
RUNS = 5


def main() -> int:
    """Print both ratios."""
    for name, measured, floor, limit in (*claiming(), *validating()):
        print(
            f"{name:60} {measured / floor:6.2f} x  (at most {limit})  {measured * 1e3:8.1f} ms / {floor * 1e3:.1f} ms"
        )
    return 0


def best(*functions: Callable[[], object]) -> list[float]:
    """The best time of each function, in seconds, run in turn."""
    times = [float("inf")] * len(functions)
    for _ in range(RUNS):
        for index, function in enumerate(functions):
            start = time.perf_counter()
            function()
            times[index] = min(times[index], time.perf_counter() - start)
    return times


def claiming() -> Iterator[tuple[str, float, float, int]]:
    """Sort a hundred thousand files into claimed and generic ones, in two layouts."""
    registry, targets = load_registry(), default_targets()
    for what, place in (
        ("in target folders", "lib/engines/arch_content/aiter/gfx942/d{folder}/f{file}.bin"),
        ("flat, with the target in each name", "lib/rocblas/library/f{folder}_{file}_gfx942.dat"),
        ("generic", "include/d{folder}/f{file}.h"),
    ):
        with tempfile.TemporaryDirectory() as temporary:
            root = Path(temporary) / "x_lib_gfx942"
            made: set[Path] = set()
            for number in range(FILES):
                path = root / "stage" / place.format(folder=number // 200, file=number % 200)
                if path.parent not in made:
                    path.parent.mkdir(parents=True, exist_ok=True)
                    made.add(path.parent)
                path.touch()
            (root / "artifact_manifest.txt").write_text("stage\n")
            (artifact,) = open_shard(str(root), targets).artifacts
            claimer = Claimer(registry, targets)
            scan, claim = best(
                lambda root=root: scan_directory(str(root)),  # type: ignore[misc]
                lambda artifact=artifact, claimer=claimer: claimer.claim(artifact),  # type: ignore[misc]
            )
        yield f"scan and claim {FILES:,} files {what}, against a bare scan", scan + claim, scan, 3


def validating() -> Iterator[tuple[str, float, float, int]]:
    """Decode and validate a bundle manifest."""
    entry = {
        "name": "n", "op": "o", "family": "f", "compile_spec": {"a": 1}, "cache_key": "0" * 64,
        "toc_key": "rocke/o/f/n", "symbol": "s", "selection": {"x": [1, 2]}, "launch": {"grid": [1, 1, 1]},
        "args_signature": [{"name": "A", "type": "ptr"}] * 4,
    }  # fmt: skip
    document = {
        "schema": "rocke.aot.bundle/v1", "producer": "rocKE", "engine_build_id": "b", "llvm_flavor": "llvm22",
        "arch": "gfx942", "kpack": "k.kpack", "entries": [entry] * ENTRIES,
    }  # fmt: skip
    text = json.dumps(document)
    floor, ours = best(
        lambda: json.loads(text), lambda: manifests.problems("rocke.bundle", msgspec.json.decode(text))
    )
    yield f"decode and validate a manifest of {ENTRIES:,} entries, against json.loads", ours, floor, 10


if __name__ == "__main__":
    sys.exit(main())
