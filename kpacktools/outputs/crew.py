"""Threads that share ordered work with the caller."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from functools import partial
from types import TracebackType
from typing import TypeVar

__all__ = ["Crew"]

T = TypeVar("T")


class Crew:
    """The calling thread and ``jobs - 1`` helpers.

    A caller that waits for an outcome works meanwhile, so that no core idles and ``jobs=1`` starts no thread.
    There are two kinds of calls. Helpers prefer *long* ones, which spend their time without the interpreter
    lock (hashing, copying); the caller prefers the others. Many short calls are then made by one thread, not
    by several that wait for each other's lock.

    >>> with Crew(2) as crew:
    ...     outcomes = [crew.submit(lambda: 1), crew.submit(lambda: 2)]
    ...     [crew.result(outcome) for outcome in outcomes]
    [1, 2]

    Leaving the ``with`` block drops the calls that nobody has begun and waits for the others.
    """

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self._changed = threading.Condition()
        self._short: deque[Callable[[], None]] = deque()
        self._long: deque[Callable[[], None]] = deque()
        self._closed = self._failed = False
        self._helpers = [threading.Thread(target=self._help, daemon=True) for _ in range(jobs - 1)]

    def submit(self, call: Callable[[], T], *, long: bool = False) -> Future[T]:
        """Hand in a call without arguments; calls of a kind are begun in the order in which they come."""
        outcome: Future[T] = Future()
        with self._changed:
            (self._long if long else self._short).append(partial(_run, call, outcome))
            self._changed.notify()
        return outcome

    def result(self, outcome: Future[T]) -> T:
        """What the call returned or raised; until that is known the calling thread makes other calls."""
        while not outcome.done() and (work := self._take(self._short, self._long)) is not None:
            work()
        return outcome.result()

    def check(self) -> None:
        """To be called by long calls now and then.

        Raises :class:`concurrent.futures.CancelledError` once the ``with`` block was left by an exception.
        """
        if self._failed:
            raise CancelledError

    def __enter__(self) -> Crew:
        for helper in self._helpers:
            helper.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._failed = kind is not None
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for helper in self._helpers:
            helper.join()

    def _help(self) -> None:
        while not self._closed:
            work = self._take(self._long, self._short)
            if work is not None:
                work()
                # Waiting for the next, a helper must not keep alive what the last one held.
                del work
                continue
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._long or self._short)

    def _take(
        self, first: deque[Callable[[], None]], second: deque[Callable[[], None]]
    ) -> Callable[[], None] | None:
        with self._changed:
            queue = first or second
            return queue.popleft() if queue else None


def _run(call: Callable[[], T], outcome: Future[T]) -> None:
    try:
        outcome.set_result(call())
    except Exception as error:  # noqa: BLE001 (raised where the outcome is asked for)
        outcome.set_exception(error)
