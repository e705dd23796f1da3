"""Threads that share ordered work with the caller, and a digest that they can share."""

from __future__ import annotations

import hashlib
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from functools import partial
from types import TracebackType
from typing import Final, TypeVar

__all__ = ["Crew", "SharedDigest"]

T = TypeVar("T")

_HANDED_OVER: Final = 4
"""Blocks that may wait to be hashed by somebody else."""


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
        self.idle = 0
        """How many of the threads wait for work; a hint, since it may change at any time."""
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
        outcome.add_done_callback(self._wake)
        while (work := self._next(self._short, self._long, outcome.done)) is not None:
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
        while (work := self._next(self._long, self._short, lambda: self._closed)) is not None:
            work()
            # While it waits for the next, a helper must not keep alive what the last one held.
            del work

    def _next(
        self,
        first: deque[Callable[[], None]],
        second: deque[Callable[[], None]],
        enough: Callable[[], bool],
    ) -> Callable[[], None] | None:
        """The next call to make, when there is one; None when it is ``enough``."""
        with self._changed:
            self.idle += 1
            try:
                while not enough():
                    if queue := first or second:
                        return queue.popleft()
                    self._changed.wait()
                return None
            finally:
                self.idle -= 1

    def _wake(self, outcome: Future[T]) -> None:
        with self._changed:
            self._changed.notify_all()


class SharedDigest:
    """SHA-256 of blocks that one thread brings, hashed by it or, where one is idle, by another.

    The blocks must not change afterwards.
    """

    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        self._digest = hashlib.sha256()
        self._blocks: deque[bytes] = deque()
        self._hashing = threading.Lock()

    def update(self, block: bytes) -> None:
        """Add a block; returns at once if somebody else can hash it."""
        self._blocks.append(block)
        if len(self._blocks) > _HANDED_OVER:
            self._drain()
        elif self._hashing.locked():
            pass  # by somebody who goes on with this block
        elif self._crew.idle:
            self._crew.submit(self._drain)
        else:
            self._drain()

    def digest(self) -> bytes:
        """The 32 bytes, once all blocks are hashed."""
        self._drain()
        return self._digest.digest()

    def _drain(self) -> None:
        with self._hashing:
            while self._blocks:
                self._digest.update(self._blocks.popleft())


def _run(call: Callable[[], T], outcome: Future[T]) -> None:
    try:
        outcome.set_result(call())
    except Exception as error:  # noqa: BLE001 (raised where the outcome is asked for)
        outcome.set_exception(error)
