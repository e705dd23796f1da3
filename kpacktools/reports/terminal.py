"""Progress on a terminal, on stderr; silence everywhere else."""

from __future__ import annotations

from threading import Lock
from typing import TextIO

from kpacktools.progress import SILENT, Progress

__all__ = ["progress_for"]


def progress_for(stream: TextIO, *, quiet: bool) -> Progress:
    """Bars with bytes and time where ``stream`` is a terminal; else nothing."""
    if quiet or not stream.isatty():
        return SILENT
    return _TerminalProgress(stream)


class _TerminalProgress:
    """One line that names the current stage, redrawn ten times a second."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )
        from rich.progress import Progress as RichProgress

        self._bars = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=Console(file=stream),
            transient=True,
        )
        self._task = self._bars.add_task("starting", total=None)
        self._lock = Lock()
        self._bars.start()

    def start(self, what: str, *, files: int = 0, size: int = 0) -> None:
        description = f"{what} ({files:,} files)" if files else what
        with self._lock:
            # A new task: rich keeps a task's total where the next one is unknown.
            self._bars.remove_task(self._task)
            self._task = self._bars.add_task(description, total=size or None)

    def advance(self, *, files: int = 0, size: int = 0) -> None:
        with self._lock:
            self._bars.advance(self._task, size)
            (task,) = self._bars.tasks
            if task.total is not None and task.completed > task.total:
                # What was announced is the size of files; archives hold more than that, decompressed.
                task.total = None

    def stop(self) -> None:
        self._bars.stop()
