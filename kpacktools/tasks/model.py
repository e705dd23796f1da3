"""Tasks, what came of them, and who can be asked to do them."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeVar

from msgspec import Struct

from kpacktools.progress import SILENT, Progress
from kpacktools.tasks.log import NO_LOG, TaskLog

__all__ = ["Dispatch", "Done", "Kind", "Needed", "Place", "Software", "Task", "Workers"]

T = TypeVar("T")

Kind = Literal["check", "digest", "folder", "archive", "wheel"]


class Needed(Protocol):
    """What a task needs to be the same wherever it runs."""

    @property
    def path(self) -> str:
        """Its name in messages."""

    def is_here(self) -> bool:
        """True where this process finds it as it was on the coordinator."""


class Place(NamedTuple):
    """A file or folder that a task needs, and that has to be the same one wherever it runs."""

    path: str
    """Absolute."""
    modified: int | None = None
    """Seconds since 1970, by which another one of that name is told apart; None where the name is unique."""

    @classmethod
    def of(cls, path: str) -> Place:
        """What is at a path now. Raises :class:`OSError`."""
        absolute = os.path.abspath(path)
        return cls(absolute, int(os.stat(absolute).st_mtime))

    def is_here(self) -> bool:
        """True where this process sees it too."""
        try:
            found = os.stat(self.path)
        except OSError:
            return False
        return self.modified is None or int(found.st_mtime) == self.modified


class Task(Struct, Generic[T], frozen=True):
    """Some work of one stage, independent of all other tasks of that stage."""

    kind: Kind
    name: str
    """What it is about, as the user would type it: a bundle's folder, the name of an output."""
    size: int
    """Bytes that it reads; tasks of more bytes begin first."""
    call: Callable[..., T]
    """A function of a module, found by its name on other machines. To be called again where its worker died."""
    arguments: tuple[Any, ...] = ()
    files: int = 0
    shard: str | None = None
    key: str | None = None
    """Target key, where it is about one."""
    needs: tuple[Needed, ...] | None = ()
    """What has to be the same where it runs; None where only this process has its input."""


class Software(Struct, frozen=True):
    """What has to be the same on all machines for the same bytes to come out."""

    versions: tuple[tuple[str, str], ...]
    """Name and version of kpacktools, Python, and the libraries that compress."""
    plugins: tuple[str, ...]
    """Name of each handler and what provides it."""

    def difference(self, other: Software) -> str:
        """In what ``other`` differs first, as ``its word, and ours``; empty where both are the same."""
        theirs = dict(other.versions)
        for name, version in self.versions:
            if theirs.get(name) != version:
                return f"{name} {theirs.get(name, '(none)')}, and here is {name} {version}"
        missing = sorted(set(self.plugins) - set(other.plugins))
        more = sorted(set(other.plugins) - set(self.plugins))
        if missing:
            return f"no {missing[0]}, which is installed here"
        return f"{more[0]}, which is not installed here" if more else ""


class Done(NamedTuple):
    """What came of a task, or that it cannot be done where it was sent."""

    value: Any
    seconds: float
    worker: str
    unreachable: str = ""
    """The first place that is not there; empty where the task was done."""


class Workers(Struct, frozen=True):
    """Somebody else who does tasks."""

    executor: Executor
    count: Callable[[], int]
    """How many tasks can run at once at this moment."""
    lost: tuple[type[BaseException], ...] = ()
    """What a future raises whose worker died."""
    software: Software | None = None
    """What is to be found there too; None for threads of this process."""
    trouble: Callable[[], str] = lambda: ""
    """Why nothing more can be expected of them, asked where nothing came for a while; empty where it can."""


class Dispatch(Struct, frozen=True):
    """How the tasks of a run are run: by whom, and who is told."""

    workers: Workers
    jobs: int = 1
    """Threads for tasks that only this process can do."""
    progress: Progress = SILENT
    log: TaskLog = NO_LOG
