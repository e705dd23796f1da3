"""Progress on a terminal, on stderr; silence everywhere else.

Nothing is shown, and rich not even imported, before a run turns out to be long.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, RLock, Thread
from typing import TYPE_CHECKING, Final, TextIO

from kpacktools.progress import SILENT, Progress

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

__all__ = ["progress_for"]

_PATIENCE: Final = 0.4
"""Seconds that a run lasts before anything is shown."""
_INTERVAL: Final = 0.1
"""Seconds from one drawing to the next."""


def progress_for(stream: TextIO, *, quiet: bool) -> Progress:
    """Bars with bytes and time where ``stream`` is a terminal; else nothing."""
    if quiet or not stream.isatty():
        return SILENT
    return _TerminalProgress(stream)


class _TerminalProgress:
    """One line that names the current stage, redrawn ten times a second: by those who tell of work, and by a thread
    while they are silent."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lock = RLock()
        self._due = time.monotonic() + _PATIENCE
        self._what, self._size, self._done = "starting", 0, 0
        self._begun = time.monotonic()
        self._bars: Bars | None = None
        self._task: TaskID | None = None
        """The stage as rich knows it; None where it has begun since."""
        self._watch()

    def start(self, what: str, *, files: int = 0, size: int = 0) -> None:
        with self._lock:
            self._what = f"{what} ({files:,} files)" if files else what
            self._size, self._done = size, 0
            self._begun = time.monotonic()
            if self._bars is not None and self._task is not None:
                # A new one: rich keeps a task's total where the next one is unknown.
                self._bars.remove_task(self._task)
            self._task = None
            self._draw_where_due()

    def advance(self, *, files: int = 0, size: int = 0) -> None:
        with self._lock:
            self._done += size
            self._draw_where_due()

    @contextmanager
    def alone(self) -> Iterator[None]:
        self._unwatch()
        try:
            yield
        finally:
            self._watch()

    def stop(self) -> None:
        self._unwatch()
        with self._lock:
            if self._bars is not None:
                self._draw()
                self._bars.stop()
                self._bars = None
            self._due = float("inf")

    def _watch(self) -> None:
        self._is_over = Event()
        self._thread = Thread(target=self._redraw, args=(self._is_over,), daemon=True)
        self._thread.start()

    def _unwatch(self) -> None:
        self._is_over.set()
        self._thread.join()

    def _redraw(self, is_over: Event) -> None:
        while not is_over.wait(max(_INTERVAL, min(self._due - time.monotonic(), _PATIENCE))):
            with self._lock:
                self._draw_where_due()

    def _draw_where_due(self) -> None:
        if time.monotonic() >= self._due:
            self._draw()
            self._due = time.monotonic() + _INTERVAL

    def _draw(self) -> None:
        if self._bars is None:
            self._bars = _bars(self._stream)
            self._bars.start()
        # What was announced is the size of files; archives hold more than that, decompressed.
        total = self._size if self._size >= self._done else 0
        if self._task is None:
            self._task = self._bars.add_task(self._what, total=total or None)
            self._bars.tasks[0].start_time = self._begun
        elif not total:
            self._bars.tasks[0].total = None
        self._bars.update(self._task, completed=self._done, refresh=True)


def _bars(stream: TextIO) -> Bars:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(file=stream),
        transient=True,
        auto_refresh=False,
        get_time=time.monotonic,
    )
