"""Progress of long work, without tying the workers to a terminal."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

__all__ = ["SILENT", "Progress"]


class Progress(Protocol):
    """Told about finished work; may be called from any thread."""

    def start(self, what: str, *, files: int = 0, size: int = 0) -> None:
        """A stage begins that will handle so many files and bytes."""

    def advance(self, *, files: int = 0, size: int = 0) -> None:
        """So many more files and bytes are done."""

    def alone(self) -> AbstractContextManager[None]:
        """A time in which no thread of the progress runs: to be entered, and left, in the thread that may fork."""

    def stop(self) -> None:
        """All work is done; whatever was shown goes away. May be called again."""


class _Silent:
    def start(self, what: str, *, files: int = 0, size: int = 0) -> None:
        pass

    def advance(self, *, files: int = 0, size: int = 0) -> None:
        pass

    def alone(self) -> AbstractContextManager[None]:
        return nullcontext()

    def stop(self) -> None:
        pass


SILENT: Progress = _Silent()
"""The progress of tests and of runs without a terminal."""
