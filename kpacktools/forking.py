"""Forked processes that take a share of work which holds the interpreter's lock.

Threads cannot share such work. A forked process can: it finds everything as it was, costs a few milliseconds, and sends
back bytes. There is one only on Linux, and only where no other thread runs.
"""

from __future__ import annotations

import os
import select
import signal
import struct
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from typing import Final, TypeVar

__all__ = ["Forked", "Send", "is_orphan", "may_fork", "share_out"]

T = TypeVar("T")

Send = Callable[[bytes], None]
"""Sends bytes to the process that waits for them."""
Work = Callable[[int, Send], None]
"""What a forked process does; it is given the number of the process that waits for it."""

_NUMBER: Final = struct.Struct("<L")
_PIPE: Final = 1 << 16
"""Bytes that a pipe holds before anybody reads (pipe(7))."""
_READ: Final = 1 << 20
_LOOKS: Final = 10
_PAUSE: Final = 0.0005
"""Seconds."""


def may_fork() -> bool:
    """True on Linux in a process of one thread: a fork of others may have taken a lock with it that is never freed."""
    if sys.platform != "linux" or threading.active_count() > 1:
        return False
    with suppress(OSError):
        for _ in range(_LOOKS):
            if len(os.listdir("/proc/self/task")) == 1:
                return True
            time.sleep(_PAUSE)  # one that was joined may still be on its way out
    return False


def is_orphan(parent: int) -> bool:
    """True in a forked process whose ``parent`` is gone: nobody waits for its work."""
    return os.getppid() != parent


class Forked:
    """A forked process that does its ``work``.

    Whatever happens to it, an exception of ``work`` included, is that nothing more comes: all else that it was to do
    is still to be done. It shares the locks of this process, which stay locked until the last process is gone.
    """

    def __init__(self, work: Work) -> None:
        self.reader, writer = os.pipe()
        parent = os.getpid()
        try:
            self._process = os.fork()
        except OSError:  # no room for another
            self._process = 0
        else:
            if self._process == 0:
                _live(work, writer, parent)
        os.close(writer)

    @property
    def began(self) -> bool:
        """False where the system has no room for another process."""
        return self._process != 0

    def read(self) -> bytes:
        """What was sent since; waits for some, and is empty when there will be no more."""
        return os.read(self.reader, _READ)

    def end(self) -> None:
        """End the process, whatever it is doing."""
        os.close(self.reader)
        if self._process:
            with suppress(ProcessLookupError):
                os.kill(self._process, signal.SIGKILL)
            os.waitpid(self._process, 0)


def _live(work: Work, writer: int, parent: int) -> None:
    """The whole life of a forked process: nothing of what it inherited may be finished by it."""

    def send(message: bytes) -> None:
        rest = memoryview(message)
        while rest:
            rest = rest[os.write(writer, rest) :]

    try:
        work(parent, send)
    finally:
        os._exit(0)


def share_out(
    count: int, do: Callable[[int], T], processes: int, *, again: Callable[[int], T] | None = None
) -> Generator[tuple[int, T], None, None]:
    """Do ``count`` tasks in this process and in forked ones; yields every task's number and outcome, as they come.

    Whoever is free takes the next. What ``do`` makes of a number has to survive pickling. A task that a forked process
    took and did not finish, for whatever reason, is done ``again`` here, so that its exceptions are raised here too.

    No process outlives the generator, which is to be closed where it is not used up (:func:`contextlib.closing`).
    """
    import pickle  # most runs share nothing out

    # All numbers have to fit into a pipe, or nobody would be there to make room.
    step = max(1, -(-count * _NUMBER.size // _PIPE))
    numbers, writer = os.pipe()
    helpers: list[Forked] = []

    def taken() -> Iterator[int]:
        while message := os.read(numbers, _NUMBER.size):
            (start,) = _NUMBER.unpack(message)
            yield from range(start, min(start + step, count))

    def share(parent: int, send: Send) -> None:
        for number in taken():
            if is_orphan(parent):
                return
            message = pickle.dumps((number, do(number)), pickle.HIGHEST_PROTOCOL)
            send(_NUMBER.pack(len(message)) + message)

    try:
        for start in range(0, count, step):
            os.write(writer, _NUMBER.pack(start))
        os.close(writer)
        helpers += [Forked(share) for _ in range(processes - 1)]
        inbox = _Inbox(helpers)
        missing = set(range(count))
        for number in taken():
            missing.remove(number)
            yield number, do(number)
            for number, outcome in map(pickle.loads, inbox.waiting()):
                missing.remove(number)
                yield number, outcome
        for number, outcome in map(pickle.loads, inbox.rest()):
            missing.remove(number)
            yield number, outcome
        for number in sorted(missing):
            yield number, (again or do)(number)
    finally:
        os.close(numbers)
        for helper in helpers:
            helper.end()


class _Inbox:
    """The messages of several processes, each after its length; one that was cut short is no message."""

    def __init__(self, senders: Sequence[Forked]) -> None:
        self._pieces = {sender.reader: (sender, bytearray()) for sender in senders}
        self._poll = select.poll()
        for reader in self._pieces:
            self._poll.register(reader, select.POLLIN)

    def waiting(self) -> Iterator[bytes]:
        """Messages that are there."""
        return self._received(0)

    def rest(self) -> Iterator[bytes]:
        """All messages that will ever come."""
        while self._pieces:
            yield from self._received(None)

    def _received(self, timeout: float | None) -> Iterator[bytes]:
        for reader, _ in self._poll.poll(timeout) if self._pieces else ():
            sender, pieces = self._pieces[reader]
            if more := sender.read():
                pieces += more
            else:
                del self._pieces[reader]
                self._poll.unregister(reader)
            while len(pieces) >= _NUMBER.size:
                end = _NUMBER.size + _NUMBER.unpack_from(pieces)[0]
                if len(pieces) < end:
                    break
                message = bytes(pieces[_NUMBER.size : end])
                del pieces[:end]
                yield message
