"""Every fuzz target takes its seeds, inputs that once did harm, and changed seeds; with atheris, some of its inputs."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from targets import HERE, changed_bytes, load, names

CHANGES = 40


@pytest.mark.parametrize("name", names())
def test_a_target_takes_its_seeds(name: str) -> None:
    target = load(name)
    seeds = list(target.seeds())
    assert len(seeds) >= 2
    assert max(map(len, seeds)) <= 16384
    for seed in seeds:
        target.run(seed)


@pytest.mark.parametrize("name", names())
def test_a_target_takes_changed_seeds(name: str) -> None:
    target = load(name)
    change = target.change or changed_bytes
    random = Random(name)
    seeds = list(target.seeds())
    for _ in range(CHANGES):
        target.run(change(random.choice(seeds), random))


@pytest.mark.parametrize(
    ("name", "path"),
    [
        pytest.param(name, path, id=f"{name}-{path.name}")
        for name in names()
        for path in load(name).regressions()
    ],
)
def test_what_once_did_harm_does_none(name: str, path: Path) -> None:
    load(name).run(path.read_bytes())


def test_regressions_are_those_of_targets() -> None:
    assert {path.name for path in (HERE / "regressions").iterdir()} <= set(names())


@pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="needs the extra fuzz")
@pytest.mark.parametrize("name", names())
def test_atheris_finds_nothing_at_once(name: str, tmp_path: Path) -> None:
    command = [sys.executable, HERE / "fuzz.py", name, "-runs=100", "-max_total_time=5"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
