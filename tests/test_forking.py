"""Work shared with forked processes: each task is done once, whatever becomes of the process that took it."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from builders import Build, names
from kpacktools import forking
from kpacktools.checks import run
from kpacktools.cli import run as cli
from kpacktools.commands import inspect
from kpacktools.forking import Forked, may_fork, share_out
from kpacktools.pipeline import Settings
from kpacktools.reports.jsonreport import as_json

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


@pytest.fixture
def forks(started: list[int], monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Every check is worth a process; the processes that were started."""
    monkeypatch.setattr(run, "may_fork", lambda: True)
    monkeypatch.setattr(run, "_WORTH_FORKING", 1)
    return started


def squared(number: int) -> tuple[int, int]:
    time.sleep(0.002)  # long enough for all processes to get some
    return number * number, os.getpid()


@pytest.mark.parametrize("processes", [1, 2, 5])
@pytest.mark.parametrize("count", [0, 1, 40])
def test_every_task_is_done_once(count: int, processes: int) -> None:
    outcomes = list(share_out(count, squared, processes))
    assert sorted((number, value) for number, (value, _) in outcomes) == [(n, n * n) for n in range(count)]


def test_all_processes_take_tasks() -> None:
    workers = {worker for _, (_, worker) in share_out(60, squared, 3)}
    assert len(workers) == 3
    assert os.getpid() in workers


def test_more_tasks_than_a_pipe_has_room_for_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forking, "_PIPE", 32)
    assert sorted(number for number, _ in share_out(1001, lambda number: number, 2)) == list(range(1001))


def elsewhere(parent: int, act: Callable[[], object]) -> Callable[[int], int]:
    """A task that does something else in another process than ``parent``; there it waits for its turn."""

    def do(number: int) -> int:
        if os.getpid() != parent:
            act()
        else:
            time.sleep(0.01)
        return number

    return do


def refuse() -> None:
    raise ValueError("not here")


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_outcomes_come_while_there_is_more_to_do() -> None:
    here, order = os.getpid(), []
    for _, (_, worker) in share_out(40, squared, 2):
        order.append(worker == here)
    assert False in order[: len(order) // 2]


def test_large_outcomes_of_several_processes_arrive_whole() -> None:
    def large(number: int) -> bytes:
        time.sleep(0.002)
        return bytes([number]) * 300_000

    assert dict(share_out(24, large, 4)) == {number: bytes([number]) * 300_000 for number in range(24)}


@pytest.mark.parametrize("act", [refuse, die, lambda: os._exit(0)])
def test_what_a_process_did_not_finish_is_done_here(act: Callable[[], object]) -> None:
    outcomes = dict(share_out(12, elsewhere(os.getpid(), act), 2))
    assert outcomes == {number: number for number in range(12)}


def test_what_cannot_be_done_twice_is_told_apart() -> None:
    outcomes = dict(share_out(12, elsewhere(os.getpid(), die), 2, again=lambda number: -1))
    assert list(outcomes.values()).count(-1) == 1


def test_an_exception_is_raised_here(forks: list[int]) -> None:
    def fail(number: int) -> int:
        if number == 7:
            raise ValueError("seven")
        return number

    with pytest.raises(ValueError, match="seven"):
        list(share_out(12, fail, 2))
    assert len(forks) == 1
    with pytest.raises(ChildProcessError):  # nobody is left to wait for
        os.waitpid(forks[0], os.WNOHANG)


def test_no_process_outlives_a_consumer_that_gives_up(forks: list[int]) -> None:
    def interrupted() -> None:
        with closing(share_out(12, squared, 3)) as outcomes:
            for _ in outcomes:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert len(forks) == 2
    for process in forks:
        with pytest.raises(ChildProcessError):
            os.waitpid(process, os.WNOHANG)


def test_no_room_for_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> int:
        raise BlockingIOError

    monkeypatch.setattr(os, "fork", refused)
    assert not Forked(lambda parent, send: None).began
    assert dict(share_out(3, lambda number: number, 4)) == {0: 0, 1: 1, 2: 2}


def test_a_result_may_be_larger_than_a_pipe() -> None:
    helper = Forked(lambda parent, send: send(bytes(3 << 20)))
    try:
        assert sum(map(len, iter(helper.read, b""))) == 3 << 20
    finally:
        helper.end()


def test_no_fork_beside_another_thread() -> None:
    done = threading.Event()
    other = threading.Thread(target=done.wait)
    other.start()
    try:
        assert not may_fork()
    finally:
        done.set()
        other.join()


@pytest.fixture
def shards(build: Callable[..., Build]) -> list[str]:
    """Two builds: one in order, one whose manifest names an archive that is not there."""
    good, bad = build("gfx942"), build("gfx1100")
    for shard, target in ((good, "gfx942"), (bad, "gfx1100")):
        shard.rocke(target)
        shard.kernel_provider(target)
    (bad.engines / "arch_content/rocke/gfx1100/rocke_client_gfx1100.kpack").unlink()
    return [str(good.root), str(bad.root)]


def test_checks_by_several_processes_find_the_same(
    shards: list[str], settings: Settings, forks: list[int]
) -> None:
    alone = inspect(shards, replace(settings, jobs=1))
    assert not forks
    together = inspect(shards, replace(settings, jobs=3))
    assert len(forks) == 2
    assert as_json(together) == as_json(alone)
    assert len(together.bundles) == 4
    assert "missing-kpack" in names(together)


def test_checks_survive_the_death_of_a_process(
    shards: list[str], settings: Settings, forks: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = inspect(shards, replace(settings, jobs=1))
    here, real = os.getpid(), run.examine

    def examine(*arguments: Any) -> Any:
        if os.getpid() != here:
            die()
        time.sleep(0.01)
        return real(*arguments)

    monkeypatch.setattr(run, "examine", examine)
    assert as_json(inspect(shards, replace(settings, jobs=2))) == as_json(alone)
    assert len(forks) == 1


def test_no_fork_where_files_have_to_be_unpacked(
    shards: list[str], settings: Settings, forks: list[int], tmp_path: Path
) -> None:
    """All that is unpacked goes to one temporary file: two processes would take the same room in it."""
    artifacts = [str(path) for path in Path(shards[0]).iterdir()]
    assert cli(["artifacts", "archive", *artifacts, "-o", str(tmp_path / "archives")]) == 0
    archives = [str(tmp_path / "archives")]
    together = inspect(archives, replace(settings, jobs=3))
    assert not forks
    assert as_json(together) == as_json(inspect(archives, replace(settings, jobs=1)))
    assert len(together.bundles) == 2
