"""The simulation of many machines, and the page that shows what it says."""

from __future__ import annotations

import importlib.util
import itertools
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
SCRIPT = REPOSITORY / "benchmarks/scale.py"


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("scale", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["scale"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


scale = load()
PROCESSOR = scale.Work(10.0, 0.0)
"""A task of ten seconds that reads nothing."""


def machines(count: int = 1, **more: float) -> object:
    return scale.Machines(count, **{"cores": 2, "network": 100.0, "store": 150.0, **more})


def seconds(tasks: list[object], where: object, per_task: float = 0.0) -> float:
    stage = scale.Stage("x", tuple(tasks))
    found = scale.simulate(stage, where, per_task)
    least, _ = scale.limit(stage, where, per_task)
    assert found >= least * (1 - 1e-6)
    return float(found)


def test_the_page_shows_what_the_script_prints() -> None:
    done = subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True, check=True)
    page = (REPOSITORY / "docs/scale.md").read_text("utf-8")
    _, _, rest = page.partition("<!-- python benchmarks/scale.py -->\n")
    shown, end, _ = rest.partition("<!-- end -->\n")
    assert end
    assert shown == done.stdout


def test_tasks_share_the_cores() -> None:
    assert seconds([PROCESSOR] * 2, machines()) == pytest.approx(10)
    assert seconds([PROCESSOR] * 5, machines()) == pytest.approx(30)
    assert seconds([PROCESSOR] * 5, machines(2)) == pytest.approx(20)


def test_the_largest_begin_first() -> None:
    # Begun last, the large one would end after 20 seconds.
    large, small = scale.Work(15.0, 15.0), scale.Work(5.0, 5.0)
    assert seconds([small, small, small, large], machines()) == pytest.approx(15)


def test_a_machines_network_is_shared() -> None:
    reads = scale.Work(1.0, 100.0)
    assert seconds([reads], machines()) == pytest.approx(1)
    assert seconds([reads, reads], machines()) == pytest.approx(2)


def test_the_store_is_shared_by_all_machines() -> None:
    reads = scale.Work(1.0, 100.0)
    assert seconds([reads] * 3, machines(3)) == pytest.approx(2)


def test_what_waits_for_the_network_leaves_it_to_others_when_it_ends() -> None:
    # 0.5 s at 50 B/s each, then the other has the 100 B/s to itself.
    assert seconds([scale.Work(0.1, 25.0), scale.Work(0.1, 75.0)], machines()) == pytest.approx(1)


def test_the_coordinator_sends_one_task_after_the_other() -> None:
    assert seconds([scale.Work(0.001, 0.0)] * 100, machines(), per_task=1.0) == pytest.approx(100, rel=0.01)


def test_what_one_does_alone_is_added() -> None:
    stage = scale.Stage("scan", alone=7.0)
    assert scale.simulate(stage, machines(), 0.0) == 7.0
    assert scale.limit(stage, machines(), 0.0) == (7.0, "the coordinator")


@pytest.mark.parametrize(
    ("tasks", "where", "why"),
    [
        ([PROCESSOR] * 4, machines(), "the processors"),
        ([PROCESSOR], machines(4), "the number of tasks (1)"),
        ([scale.Work(0.1, 100.0)] * 4, machines(), "the machines' network"),
        ([scale.Work(0.1, 100.0)] * 8, machines(4), "the store"),
        ([scale.Work(9.0, 0.0), *[scale.Work(0.1, 0.0)] * 20], machines(4), "the largest task"),
    ],
)
def test_what_limits_a_stage_is_named(tasks: list[object], where: object, why: str) -> None:
    assert scale.limit(scale.Stage("x", tuple(tasks)), where, 0.0)[1] == why


def test_shares_are_fair() -> None:
    assert scale.fair_shares(10.0, [2.0, 9.0, 9.0]) == [2.0, 4.0, 4.0]
    assert scale.fair_shares(10.0, [1.0, 2.0]) == [1.0, 2.0]
    assert scale.fair_shares(1.0, []) == []


def test_more_machines_are_never_slower_and_no_file_is_left_out() -> None:
    costs, _ = scale.read_costs(scale.CONSTANTS)
    release = scale.Release(targets=4, artifacts=10)
    for job in scale.JOBS:
        times = [scale.prediction(job, release, scale.Machines(n), costs)[0] for n in (1, 2, 4, 8)]
        assert all(later <= earlier * 1.001 for earlier, later in itertools.pairwise(times))
    assert sum(release.sizes()) == pytest.approx(10 * 5e9)
    (*_, write) = scale.stages("wheels", release, scale.Machines(1), costs)
    assert sum(work.traffic for work in write.tasks) == pytest.approx(2 * 4 * 10 * 5e9)


def test_other_machines_can_be_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert scale.main(["--machines", "1,2", "--targets", "2", "--artifacts", "3", "--store", "20"]) == 0
    out = capsys.readouterr().out
    assert "2 targets x 3 artifacts x 5 GB" in out
    assert "a store of 20 GB/s" in out
    assert out.count("\n| wheels |") == 2
