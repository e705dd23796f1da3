"""A machine-readable log of tasks: one JSON object a line, written when a task ends.

>>> with open_log("tasks.jsonl") as log:                                     # doctest: +SKIP
...     log.record("check", "in/hip_lib_gfx942", key="gfx942", size=1 << 20, seconds=0.5, worker="host:123")
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Final, TextIO

from kpacktools.errors import CallError

__all__ = ["NO_LOG", "SCHEMA", "TaskLog", "logged", "open_log", "this_worker"]

SCHEMA: Final = "kpacktools.task/v1"


class TaskLog:
    """A log of tasks; one without a stream is for nobody. May be told from any thread."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream
        self._lock = threading.Lock()
        self._begun = time.monotonic()

    def record(
        self,
        kind: str,
        name: str,
        *,
        seconds: float,
        worker: str,
        shard: str | None = None,
        key: str | None = None,
        files: int = 0,
        size: int = 0,
        attempt: int = 1,
        error: str | None = None,
    ) -> None:
        """A task ended; ``error`` says why where it failed."""
        if self._stream is None:
            return
        import json  # most runs have no log

        line = json.dumps(
            {
                "schema": SCHEMA,
                "kind": kind,
                "name": name,
                "shard": shard,
                "key": key,
                "files": files,
                "bytes": size,
                "seconds": round(seconds, 6),
                "ended": round(time.monotonic() - self._begun, 6),
                "worker": worker,
                "attempt": attempt,
                "error": error,
            }
        )
        with self._lock:
            self._stream.write(line + "\n")
            self._stream.flush()


NO_LOG: Final = TaskLog()


@contextmanager
def open_log(path: str) -> Iterator[TaskLog]:
    """A new log at ``path``, in place of what is there.

    Raises :class:`~kpacktools.errors.CallError` where it cannot be written.
    """
    try:
        stream = open(path, "w", encoding="utf-8", newline="\n")  # noqa: SIM115 (an error of the body is not ours)
    except OSError as error:
        raise CallError(f"--task-log {path}: {error.strerror or error}") from error
    with stream:
        yield TaskLog(stream)


@contextmanager
def logged(log: TaskLog, kind: str, name: str, *, files: int, size: int) -> Iterator[None]:
    """Records the work of the context, done by threads of this process that share all of it, as one task."""
    if log is NO_LOG:
        yield
        return
    begun = time.perf_counter()
    yield
    seconds = time.perf_counter() - begun
    log.record(kind, name, files=files, size=size, seconds=seconds, worker=this_worker())


@lru_cache(maxsize=1)
def _host() -> str:
    import socket  # takes long to import, and most runs name no worker

    return socket.gethostname()


def this_worker() -> str:
    """This process, as logs name it: ``host:pid``."""
    return f"{_host()}:{os.getpid()}"
