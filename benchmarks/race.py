"""Races: several programs do one job on one input, taking turns, each in a process of its own.

Wall time, processor time and peak memory of the whole process are measured. Linux and other Unix systems only
(``os.wait4``).
"""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

__all__ = [
    "BenchmarkError",
    "Contender",
    "Race",
    "Result",
    "Role",
    "Sample",
    "Track",
    "Verdict",
    "by_name",
    "in_memory",
]

Role = Literal["kpacktools", "start-up", "floor", "peer"]
"""What is measured; the same without content; the least that the job can cost; another program that does it."""

_MEMORY_UNIT = 1 if sys.platform == "darwin" else 1024
"""Bytes that ``ru_maxrss`` counts in (getrusage(2))."""


class BenchmarkError(Exception):
    """A contender failed: its times mean nothing."""


class Sample(NamedTuple):
    """One run of one process."""

    wall: float
    """Seconds."""
    cpu: float
    """Seconds of user and system time."""
    memory: int
    """Bytes; the largest resident set."""


@dataclass(frozen=True, slots=True)
class Contender:
    """One program that takes part in a race."""

    name: str
    role: Role
    command: Callable[[Path], Sequence[str | Path]]
    """From a fresh, empty folder to the command line that puts its outputs there."""
    skipped: str = ""
    """Why it cannot take part here; empty where it can."""
    place: Path | None = None
    """Where it has to be started; None for the fresh folder."""


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one contender."""

    name: str
    role: Role
    samples: tuple[Sample, ...] = ()
    size: int = 0
    """Bytes of the wheels that it wrote."""
    skipped: str = ""

    @property
    def wall(self) -> float:
        """Median seconds."""
        return statistics.median(sample.wall for sample in self.samples)

    @property
    def cpu(self) -> float:
        """Median seconds of processor time."""
        return statistics.median(sample.cpu for sample in self.samples)

    @property
    def best(self) -> float:
        """Least seconds: what noise disturbs least."""
        return min(sample.wall for sample in self.samples)

    @property
    def memory(self) -> int:
        """Bytes; the largest resident set of any run."""
        return max(sample.memory for sample in self.samples)


@dataclass(frozen=True, slots=True)
class Verdict:
    """One thing that has to be shown, and what was measured."""

    text: str
    value: float
    limit: float
    at_least: bool = False
    """The limit is a lower one."""

    @property
    def ok(self) -> bool:
        """True where the value keeps to the limit."""
        return self.value >= self.limit if self.at_least else self.value <= self.limit


@dataclass(frozen=True, slots=True)
class Race:
    """Contenders that do the same job on the same files."""

    title: str
    contenders: Sequence[Contender]
    once: bool = False
    """One run says enough: memory is asked for, not time."""
    warm: bool = False
    """A first round is not counted: Python caches bytecode in it."""


@dataclass(frozen=True, slots=True)
class Track:
    """Where races are run, and how often each contender runs."""

    root: Path
    """Outputs are left here on disks, for the caller to remove."""
    repeat: int
    tell: Callable[[str], None]
    """Told what runs now."""

    def run(self, race: Race) -> list[Result]:
        """All contenders in turns, beginning with another one in every round.

        Raises :class:`BenchmarkError` where one fails.
        """
        running = [contender for contender in race.contenders if not contender.skipped]
        samples: dict[str, list[Sample]] = {contender.name: [] for contender in running}
        sizes: dict[str, int] = {}
        rounds = 1 if race.once else self.repeat
        for number in range(-1 if race.warm else 0, rounds):
            turn = number % max(1, len(running))
            for contender in running[turn:] + running[:turn]:
                self.tell(f"{race.title}: {contender.name} ({max(number, 0) + 1}/{rounds})")
                folder = Path(tempfile.mkdtemp(dir=self.root))
                sample = _measure(contender, folder)
                if number >= 0:
                    samples[contender.name].append(sample)
                sizes[contender.name] = sum(path.stat().st_size for path in folder.rglob("*.whl"))
                # Making thousands of files is many times slower on ext4 just after thousands were removed: there
                # they stay until the whole root is removed.
                if in_memory(self.root):
                    shutil.rmtree(folder)
        return [
            Result(c.name, c.role, tuple(samples.get(c.name, ())), sizes.get(c.name, 0), c.skipped)
            for c in race.contenders
        ]


def in_memory(folder: Path) -> bool:
    """True where a folder lies on tmpfs."""
    try:
        mounts = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return False
    points = [line.split()[1:3] for line in mounts]
    path = str(folder.resolve())
    below = [(point, kind) for point, kind in points if f"{path}/".startswith(f"{point.rstrip('/')}/")]
    return max(below, key=lambda item: len(item[0]), default=("", ""))[1] == "tmpfs"


def _measure(contender: Contender, folder: Path) -> Sample:
    command = [str(part) for part in contender.command(folder)]
    with tempfile.TemporaryFile() as errors:
        begun = time.perf_counter()
        process = subprocess.Popen(
            command,
            cwd=contender.place or folder,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            env=_environment(),
        )
        usage, process.returncode = _wait(process.pid)
        wall = time.perf_counter() - begun
        if process.returncode != 0:
            errors.seek(0)
            text = errors.read().decode(errors="replace").strip()
            raise BenchmarkError(f"{' '.join(command)}: exit status {process.returncode}: {text[-2000:]}")
    return Sample(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * _MEMORY_UNIT)


def _environment() -> dict[str, str]:
    """This process's, but Python may cache bytecode, as it does for installed programs."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def _wait(process: int) -> tuple[resource.struct_rusage, int]:
    _, status, usage = os.wait4(process, 0)
    return usage, os.waitstatus_to_exitcode(status)


def by_name(results: Iterable[Result]) -> dict[str, Result]:
    """The results of contenders that ran."""
    return {result.name: result for result in results if result.samples}
