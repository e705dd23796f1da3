"""Work shared with forked processes: each task is done once, whatever becomes of the process that took it."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from builders import Build, names
from kpacktools import forking
from kpacktools.checks import run
from kpacktools.commands import inspect
from kpacktools.forking import Forked, may_fork, share_out
from kpacktools.pipeline import Settings
from kpacktools.reports.jsonreport import as_json

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


@pytest.fixture
def forks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Every check is worth a process; the processes that were started."""
    started: list[int] = []
    fork = os.fork

    def noted() -> int:
        process = fork()
        started.append(process)
        return process

    monkeypatch.setattr(os, "fork", noted)
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


@pytest.mark.parametrize("act", [refuse, die, lambda: os._exit(0)])
def test_what_a_process_did_not_finish_is_done_here(act: Callable[[], object]) -> None:
    outcomes = dict(share_out(12, elsewhere(os.getpid(), act), 2))
    assert outcomes == {number: number for number in range(12)}


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


def test_no_room_for_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> int:
        raise BlockingIOError

    monkeypatch.setattr(os, "fork", refused)
    assert not Forked(lambda parent: b"").began
    assert dict(share_out(3, lambda number: number, 4)) == {0: 0, 1: 1, 2: 2}


def test_a_result_may_be_larger_than_a_pipe() -> None:
    helper = Forked(lambda parent: bytes(3 << 20))
    try:
        assert len(helper.result()) == 3 << 20
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
    good, bad = build("one"), build("two")
    for target in ("gfx942", "gfx950"):
        good.rocke(target)
        good.kernel_provider(target)
    (bad.rocke("gfx1100") / "rocke_client_gfx1100.kpack").unlink()
    bad.kernel_provider("gfx1100")
    return [str(good.root), str(bad.root)]


def test_checks_by_several_processes_find_the_same(
    shards: list[str], settings: Settings, forks: list[int]
) -> None:
    alone = inspect(shards, replace(settings, jobs=1))
    assert not forks
    together = inspect(shards, replace(settings, jobs=3))
    assert len(forks) == 2
    assert as_json(together) == as_json(alone)
    assert len(together.bundles) == 6
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
