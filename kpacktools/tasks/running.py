"""The one scheduling function: tasks over an executor, largest first, in bounded number, in the order given."""

from __future__ import annotations

import logging
import os
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from functools import lru_cache
from typing import Any, Final, TypeVar

from msgspec import Struct

from kpacktools import limits
from kpacktools.errors import CallError
from kpacktools.tasks.log import this_worker
from kpacktools.tasks.model import Dispatch, Done, Needed, Software, Task

__all__ = ["ATTEMPTS", "perform", "run_tasks", "software"]

T = TypeVar("T")

ATTEMPTS: Final = 4
"""How often a task is begun whose worker dies: one that kills its workers must not kill all of them."""
_AHEAD: Final = 2
"""Tasks in flight for each that can run: the next one is there when one ends, and memory stays bounded."""

_PATIENCE: Final = 5
"""Seconds without an answer after which the workers are looked after."""

_logger = logging.getLogger(__name__)


class _Call(Struct, frozen=True):
    """A call as it is sent. In plain tuples and lists Dask would look for its own futures, element by element."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    needs: tuple[Needed, ...]
    software: Software | None


def run_tasks(
    tasks: Sequence[Task[T]], dispatch: Dispatch, stop: Callable[[], object] = lambda: None
) -> list[T]:
    """Run tasks and return what they gave, in the order given; the largest begin first.

    A task whose worker died is begun again, :data:`ATTEMPTS` times in all. One whose input only this process has, or
    whose worker does not see it, runs here. When one fails, no other is begun, and ``stop`` is called once.

    Raises what the first of the failed tasks raised, in the order given, and
    :class:`~kpacktools.errors.CallError` where a task's workers die again and again or the executor gives up.
    """
    work = _Work(tasks, dispatch, stop)
    with ExitStack() as stack:
        try:
            work.run(stack)
        finally:
            work.cancel()
    if work.failures:
        raise work.failures[min(work.failures)]
    return [work.results[index] for index in range(len(tasks))]


class _Work:
    """Tasks on their way. Used by one thread."""

    def __init__(self, tasks: Sequence[Task[Any]], dispatch: Dispatch, stop: Callable[[], object]) -> None:
        self.results: dict[int, Any] = {}
        self.failures: dict[int, BaseException] = {}
        self._tasks = tasks
        self._dispatch = dispatch
        self._stop: Callable[[], object] = stop
        """To be called once."""
        self._attempts: Counter[int] = Counter()
        self._came_back = 0
        order = sorted(range(len(tasks)), key=lambda index: -tasks[index].size)
        self._there = deque(index for index in order if tasks[index].needs is not None)
        self._here = deque(index for index in order if tasks[index].needs is None)
        self._running: dict[Future[Done], tuple[int, bool]] = {}
        """Future -> the task's number, and whether it runs here."""
        self._threads: ThreadPoolExecutor | None = None

    def run(self, stack: ExitStack) -> None:
        """Run until all is done or something failed; threads end with ``stack``."""
        while True:
            if not self.failures:
                self._submit(stack)
            if not self._running:
                break
            done, _ = wait(self._running, timeout=_PATIENCE, return_when=FIRST_COMPLETED)
            if not done and (trouble := self._dispatch.workers.trouble()):
                raise CallError(trouble)
            for future in done:
                if future in self._running:  # and was not cancelled because of another one a moment ago
                    index, here = self._running.pop(future)
                    self._collect(index, future, here)
        if self._came_back:
            _logger.warning(
                "%d of %d tasks ran on this machine: the workers do not see the same files",
                self._came_back,
                len(self._tasks),
            )

    def cancel(self) -> None:
        """Give up what has not begun; what has, by a thread of this process, is told to stop."""
        if self._running or self.failures:
            self._stop()
            self._stop = lambda: None
        self._there.clear()
        self._here.clear()
        for future in tuple(self._running):
            if future.cancel():
                del self._running[future]

    def _submit(self, stack: ExitStack) -> None:
        workers = self._dispatch.workers
        away = sum(not here for _, here in self._running.values())
        room = _AHEAD * max(1, workers.count()) - away if self._there else 0
        while self._there and room > 0:
            index = self._there.popleft()
            task = self._tasks[index]
            call = _Call(task.call, task.arguments, task.needs or (), workers.software)
            self._running[workers.executor.submit(perform, call)] = (index, False)
            self._attempts[index] += 1
            room -= 1
        own = len(self._running) - away
        while self._here and own < self._dispatch.jobs:
            if self._threads is None:
                self._threads = stack.enter_context(ThreadPoolExecutor(self._dispatch.jobs))
            index = self._here.popleft()
            task = self._tasks[index]
            call = _Call(task.call, task.arguments, (), None)
            self._running[self._threads.submit(perform, call)] = (index, True)
            self._attempts[index] += 1
            own += 1

    def _collect(self, index: int, future: Future[Done], here: bool) -> None:
        task = self._tasks[index]
        try:
            done = future.result()
        except self._dispatch.workers.lost as error:
            if self._attempts[index] < ATTEMPTS:
                self._note(task, index, None, "its worker died; it is begun again")
                self._there.appendleft(index)
            else:
                self._fail(index, _died(task, error))
        except CancelledError:
            self._fail(index, CallError(f"{task.name}: the scheduler gave this task up, or went away"))
        except Exception as error:  # noqa: BLE001 (raised when all that is in flight has ended)
            self._fail(index, error)
        else:
            if done.unreachable and not here:
                self._came_back += 1
                self._here.append(index)
                return
            self.results[index] = done.value
            self._note(task, index, done, None)
            self._dispatch.progress.advance(files=task.files, size=task.size)

    def _fail(self, index: int, error: BaseException) -> None:
        self.failures[index] = error
        self.cancel()
        self._note(self._tasks[index], index, None, " ".join(str(error).split()))

    def _note(self, task: Task[Any], index: int, done: Done | None, error: str | None) -> None:
        self._dispatch.log.record(
            task.kind,
            task.name,
            shard=task.shard,
            key=task.key,
            files=task.files,
            size=task.size,
            seconds=0.0 if done is None else done.seconds,
            worker="" if done is None else done.worker,
            attempt=self._attempts[index],
            error=error,
        )


def _died(task: Task[Any], error: BaseException) -> CallError:
    return CallError(
        f"{task.name}: {ATTEMPTS} workers died while they did this task, so it is not tried again "
        f"(is there memory enough?): {error}"
    )


def perform(call: _Call) -> Done:
    """Do a task where it was sent.

    Raises what its function raises, and :class:`~kpacktools.errors.CallError` where this process runs other software.
    """
    worker = this_worker()
    if call.software is not None and (difference := call.software.difference(software())):
        raise CallError(f"the worker {worker} runs {difference}; install the same on all machines")
    for place in call.needs:
        if not place.is_here():
            return Done(None, 0.0, worker, place.path)
    begun = time.perf_counter()
    value = call.function(*call.arguments)
    return Done(value, time.perf_counter() - begun, worker)


@lru_cache(maxsize=1)
def software() -> Software:
    """What this process runs."""
    import platform
    import zlib
    from importlib import metadata

    import zstandard

    from kpacktools import __version__
    from kpacktools.plugins import load_registry

    versions = (
        ("kpacktools", __version__),
        ("Python", ".".join(platform.python_version_tuple()[:2])),
        ("zlib", zlib.ZLIB_RUNTIME_VERSION),
        ("zstd", ".".join(map(str, zstandard.ZSTD_VERSION))),
        ("deflate", metadata.version("deflate")),
        *((name, os.environ.get(name) or "unset") for name in limits.VARIABLES),
    )
    registry = load_registry()
    plugins = (f"{item.handler.name} of {item.distribution}" for item in registry.registered)
    return Software(versions, tuple(sorted(plugins)))
