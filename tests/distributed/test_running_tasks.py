"""The scheduling function, over executors that do what the test says."""

from __future__ import annotations

import json
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from kpacktools.errors import CallError
from kpacktools.progress import SILENT
from kpacktools.tasks.log import open_log
from kpacktools.tasks.model import Dispatch, Place, Software, Task, Workers
from kpacktools.tasks.running import ATTEMPTS, run_tasks, software

KILLED = "its worker died; it is begun again"


class WorkerDied(Exception):
    """What the executors here raise for a task whose worker died."""


@dataclass
class OneByOne(Executor):
    """Does a call when its future is waited for next; keeps what the test asks about."""

    dies: Callable[[int], bool] = lambda number: False
    submitted: list[Any] = field(default_factory=list)
    most: int = 0
    _open: deque[tuple[Future[Any], Any]] = field(default_factory=deque)

    def submit(self, function: Any, /, *arguments: Any, **_: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.submitted.append(arguments[0].arguments)
        self._open.append((future, (len(self.submitted), function, arguments)))
        self.most = max(self.most, len(self._open))
        # Another thread answers, as with any executor: the caller waits for it.
        threading.Timer(0.001, self._next).start()
        return future

    def _next(self) -> None:
        future, (number, function, arguments) = self._open.popleft()
        if not future.set_running_or_notify_cancel():
            return
        try:
            if self.dies(number):
                raise WorkerDied
            future.set_result(function(*arguments))
        except Exception as error:  # noqa: BLE001
            future.set_exception(error)


@pytest.fixture
def threads() -> Iterator[Dispatch]:
    with ThreadPoolExecutor(2) as executor:
        yield Dispatch(Workers(executor, lambda: 2), jobs=2)


def on(executor: Executor, count: int = 2, **more: Any) -> Dispatch:
    return Dispatch(Workers(executor, lambda: count, lost=(WorkerDied,), **more))


def task(size: int, call: Callable[..., Any] = lambda value: value, **more: Any) -> Task[Any]:
    return Task("check", f"task {size}", size, call, (size,), **more)


def refuse(size: int) -> None:
    raise CallError(f"refused {size}")


def pid(_: int) -> int:
    return os.getpid()


def test_results_have_the_order_given_and_the_largest_begin_first() -> None:
    executor = OneByOne()
    assert run_tasks([task(2), task(9), task(5)], on(executor)) == [2, 9, 5]
    assert executor.submitted == [(9,), (5,), (2,)]


def test_no_more_tasks_are_in_flight_than_twice_what_can_run() -> None:
    executor = OneByOne()
    run_tasks([task(n) for n in range(50)], on(executor, count=3))
    assert executor.most == 6


def test_nothing_is_submitted_for_no_tasks() -> None:
    executor = OneByOne()
    assert run_tasks([], on(executor)) == []
    assert executor.submitted == []


def test_a_task_whose_worker_died_is_begun_again(tmp_path: Path) -> None:
    with open_log(str(tmp_path / "log")) as log:
        dispatch = replace(on(OneByOne(dies=lambda number: number == 1)), log=log)
        assert run_tasks([task(1), task(2)], dispatch) == [1, 2]
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    told = [(line["name"], line["attempt"], line["error"]) for line in lines]
    assert sorted(told, key=str) == [("task 1", 1, None), ("task 2", 1, KILLED), ("task 2", 2, None)]


def test_a_task_that_kills_its_workers_is_given_up() -> None:
    executor = OneByOne(dies=lambda number: True)
    with pytest.raises(CallError, match=f"task 7: {ATTEMPTS} workers died"):
        run_tasks([task(7)], on(executor))
    assert len(executor.submitted) == ATTEMPTS


def test_no_other_task_is_begun_when_one_failed() -> None:
    executor = OneByOne()
    stopped: list[bool] = []
    tasks = [task(1), task(9, refuse), *(task(size) for size in range(2, 9))]
    with pytest.raises(CallError, match=r"^refused 9$"):
        run_tasks(tasks, on(executor, count=1), stop=lambda: stopped.append(True))
    assert executor.submitted == [(9,), (8,)]
    assert stopped == [True]


def test_of_several_that_failed_the_first_in_the_order_given_is_named(threads: Dispatch) -> None:
    both = threading.Barrier(2)

    def refuse_together(size: int) -> None:
        both.wait(10)
        refuse(size)

    with pytest.raises(CallError, match=r"^refused 3$"):
        run_tasks([task(3, refuse_together), task(4, refuse_together)], threads)


def test_what_only_this_process_has_runs_here() -> None:
    executor = OneByOne()
    assert run_tasks([task(1, pid, needs=None), task(2)], on(executor)) == [os.getpid(), 2]
    assert executor.submitted == [(2,)]


def test_a_task_comes_back_whose_files_are_not_at_the_same_path_on_the_worker(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    gone = Place(str(tmp_path / "only-here"))
    other = Place(str(tmp_path), modified=1)
    executor = OneByOne()
    tasks = [
        task(1, pid, needs=(gone,)),
        task(2, pid, needs=(other,)),
        task(3, pid, needs=(Place.of(str(tmp_path)),)),
    ]
    assert run_tasks(tasks, on(executor)) == [os.getpid()] * 3
    assert len(executor.submitted) == 3
    assert [record.getMessage() for record in caplog.records] == [
        "2 of 3 tasks ran on this machine: the workers do not see the same files"
    ]


def test_a_worker_with_other_software_refuses_to_work() -> None:
    mine = software()
    older = Software((("kpacktools", "0.0.1"), *mine.versions[1:]), mine.plugins)
    with pytest.raises(
        CallError, match=r"^the worker \S+ runs kpacktools \S+, and here is kpacktools 0\.0\.1; install"
    ):
        run_tasks([task(1)], on(OneByOne(), software=older))
    assert run_tasks([task(1)], on(OneByOne(), software=mine)) == [1]


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (
            Software((("kpacktools", "2"), ("zlib", "1")), ("a of x 1",)),
            "kpacktools 2, and here is kpacktools 1",
        ),
        (Software((("kpacktools", "1"),), ("a of x 1",)), "zlib (none), and here is zlib 1"),
        (Software((("kpacktools", "1"), ("zlib", "1")), ()), "no a of x 1, which is installed here"),
        (
            Software((("kpacktools", "1"), ("zlib", "1")), ("a of x 1", "b of y 1")),
            "b of y 1, which is not installed here",
        ),
        (Software((("kpacktools", "1"), ("zlib", "1")), ("a of x 1",)), ""),
    ],
)
def test_in_what_software_differs(other: Software, told: str) -> None:
    mine = Software((("kpacktools", "1"), ("zlib", "1")), ("a of x 1",))
    assert mine.difference(other) == told


def test_a_run_does_not_wait_for_workers_that_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent(Executor):
        def submit(self, function: Any, /, *arguments: Any, **_: Any) -> Future[Any]:
            return Future()

    monkeypatch.setattr("kpacktools.tasks.running._PATIENCE", 0.01)
    with pytest.raises(CallError, match="no worker has been there"):
        run_tasks([task(1)], on(Silent(), trouble=lambda: "no worker has been there for 60 seconds"))


def test_progress_is_told_of_every_task_that_is_done(threads: Dispatch) -> None:
    told: list[tuple[int, int]] = []

    class Told:
        def start(self, what: str, *, files: int = 0, size: int = 0) -> None: ...

        def advance(self, *, files: int = 0, size: int = 0) -> None:
            told.append((files, size))

        def stop(self) -> None: ...

        alone = SILENT.alone

    run_tasks([task(10, files=2), task(20, files=3)], replace(threads, progress=Told()))
    assert sorted(told) == [(2, 10), (3, 20)]
