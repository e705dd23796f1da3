"""The costs that :mod:`scale` reckons with, measured: processor seconds of each stage on inputs of one kind.

Each stage runs in one thread. Processor time hardly changes when others use the machine; the least of some runs is
taken. Differences between inputs tell files, bytes and kernels apart.
"""

from __future__ import annotations

import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from inputs import shards_of
from race import Track
from run import MEMORY
from workloads import make_input

from kpacktools.commands import Run, start_run
from kpacktools.hookspecs import Depth
from kpacktools.outputs.folders import write_folders
from kpacktools.outputs.wheelset import WheelOptions
from kpacktools.pipeline import Settings, check, plan
from kpacktools.planning.layouts import ArtifactLayout
from kpacktools.planning.plan import PlannedFolder
from kpacktools.planning.selection import Selection
from kpacktools.tasks.model import Dispatch, Task
from kpacktools.tasks.running import run_tasks
from kpacktools.trees.shards import Prefix
from kpacktools.wheelbuild import WheelRun, wheel

__all__ = ["measure"]

T = TypeVar("T")
_RUNS = 3
_TASKS = 500


@dataclass(frozen=True, slots=True)
class Seconds:
    """What an input cost, stage by stage, and what it holds."""

    scan: float
    toc: float
    content: float
    copy: float
    wheel: float
    files: int
    size: int
    kernels: int


def measure(folder: Path | None) -> tuple[dict[str, float], str]:
    """The costs by name, and what they were measured on."""
    root = Path(tempfile.mkdtemp(prefix="kpacktools-scale-", dir=folder or MEMORY))
    try:
        track = Track(root, 1, lambda text: print(text, file=sys.stderr))
        start = make_input(track, "start")
        files = _stages(make_input(track, "W3-10000"), root)
        tables = _stages(make_input(track, "W5"), root)
        large = _stages(make_input(track, "W4"), root)
        begun = _start_up(start)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    check_file = files.toc / files.files
    per_kernel = (tables.content - tables.toc) / tables.kernels
    content_bytes = large.content - large.toc - large.kernels * per_kernel
    costs = {
        "start": begun,
        "task": _task(),
        "scan_file": files.scan / files.files,
        "check_file": check_file,
        "check_kernel": max(0.0, tables.toc - tables.files * check_file) / tables.kernels,
        "content_kernel": per_kernel,
        "content_byte": content_bytes / large.size,
        "copy_file": files.copy / files.files,
        "copy_byte": large.copy / large.size,
        "wheel_file": files.wheel / files.files,
        "wheel_byte": large.wheel / large.size,
    }
    python = platform.python_version().rpartition(".")[0]
    return costs, f"{os.cpu_count()} cores ({platform.machine()}), Python {python}, files in memory (tmpfs)"


def _least(call: Callable[[], T]) -> tuple[float, T]:
    """Least processor seconds of this process for a call, and what the call gave last."""
    times = []
    for _ in range(_RUNS):
        begun = time.process_time()
        value = call()
        times.append(time.process_time() - begun)
    return min(times), value


def _least_into(root: Path, write: Callable[[str], object]) -> float:
    """The same, of a call that writes to a path where nothing is."""
    times = []
    for _ in range(_RUNS):
        folder = tempfile.mkdtemp(dir=root)
        begun = time.process_time()
        write(f"{folder}/out")
        times.append(time.process_time() - begun)
        shutil.rmtree(folder)
    return min(times)


def _stages(place: Path, root: Path) -> Seconds:
    """The stages of a merge and of a wheel, each on its own, with one thread."""
    paths = [str(path) for path in shards_of(place)]
    toc, layout, content = (
        Settings(depth=depth, jobs=1) for depth in (Depth.TOC, Depth.LAYOUT, Depth.CONTENT)
    )
    options = WheelOptions(version="1.0")

    def planned() -> tuple[Run, tuple[PlannedFolder, ...]]:
        run = start_run("merge", paths, toc, Prefix())
        return run, plan(run.inputs, ArtifactLayout(), Selection(), run.targets, toc).folders

    scanned, (run, folders) = _least(planned)
    checked, checks = _least(lambda: check(run.inputs, run.registry, run.targets, toc))
    read, _ = _least(lambda: check(run.inputs, run.registry, run.targets, content))
    copied = _least_into(root, lambda out: write_folders(out, folders, link="copy"))
    packed = _least_into(root, lambda out: wheel(paths, out, layout, options))
    unpacked = _least_into(root, lambda out: wheel(paths, out, layout, options, WheelRun(dry_run=True)))
    return Seconds(
        scanned,
        checked,
        read,
        copied,
        packed - unpacked,
        files=sum(folder.count for folder in folders),
        size=sum(folder.size for folder in folders),
        kernels=sum(item.kernels for item in checks.bundles),
    )


def _task() -> float:
    """Processor seconds of this process, which is client and scheduler, for a task that does nothing."""
    from kpacktools.tasks.cluster import workers_at

    tasks = [Task("check", str(number), 1, time.sleep, (0,)) for number in range(_TASKS)]
    with workers_at("local:1") as workers:
        return _least(lambda: run_tasks(tasks, Dispatch(workers)))[0] / _TASKS


def _start_up(start: Path) -> float:
    """Least processor seconds of a run with one worker on an almost empty input. The processes mostly wait for one
    another, so that they are about as many seconds on a machine that does nothing else."""
    command = [
        sys.executable,
        "-m",
        "kpacktools",
        "inspect",
        "-q",
        str(start / "shards"),
        "--scheduler",
        "local:1",
    ]
    times = []
    for _ in range(_RUNS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(times)
