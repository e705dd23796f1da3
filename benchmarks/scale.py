#!/usr/bin/env python3
"""A release on many machines, on paper: a simulation of the tasks of a run, from costs that were measured::

    python benchmarks/scale.py                                  the tables of docs/scale.md
    python benchmarks/scale.py --machines 1,2,8 --store 20      with other machines, or a faster store
    python benchmarks/scale.py --measure benchmarks/scale.json  measure the costs anew (some minutes), and write them

The costs are seconds of one processor for a file, a byte, a kernel, a task. The simulation has machines with some cores
each, a network connection for each machine and one store that all of them share. Tasks are begun largest first, as
:func:`kpacktools.tasks.running.run_tasks` does; those that run share the network and the store evenly, and each is as
slow as the slower of its processor and its share. What only the coordinator does is not shared by anybody.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Final

__all__ = ["Costs", "Machines", "Release", "Stage", "Work", "fair_shares", "main", "simulate", "tables"]

CONSTANTS: Final = Path(__file__).with_name("scale.json")
SCHEMA: Final = "kpacktools.scale/v1"
GB: Final = 1e9


@dataclass(frozen=True, slots=True)
class Costs:
    """What was measured: seconds of one processor, where nothing else is said."""

    start: float
    """A run with one worker that has almost nothing to do: imports of both, connecting, ending."""
    task: float
    """A task, on the coordinator: sent, scheduled, collected."""
    scan_file: float
    """A file, on the coordinator: scanned, claimed, planned."""
    check_file: float
    """A loose code object, checked at depth toc."""
    check_kernel: float
    """A kernel in a table of contents, checked at depth toc; half of them are in manifests too."""
    content_kernel: float
    """A kernel at depth content, apart from its bytes."""
    content_byte: float
    """A byte of a kernel as stored, at depth content: decompressed, hashed, parsed."""
    copy_file: float
    """A file that is copied by a merge, apart from its bytes."""
    copy_byte: float
    """A byte of it."""
    wheel_file: float
    """A small file that is packed into a wheel."""
    wheel_byte: float
    """A byte of a kpack that is stored in a wheel: hashed, checked, written."""


@dataclass(frozen=True, slots=True)
class Release:
    """What is merged or packed: ``targets`` x ``artifacts`` artifact directories."""

    targets: int = 30
    artifacts: int = 40
    """For each target. Their sizes lie evenly between a fifth of the mean and nine fifths."""
    mean: float = 5 * GB
    """Bytes of an artifact directory."""
    files: int = 500
    """In each; the rest of its bytes is in kpacks."""
    kernels: int = 5000
    """In each."""
    manifest: float = 1000
    """Bytes of manifests and tables of contents for each kernel."""

    def sizes(self) -> list[float]:
        """The bytes of each artifact directory of one target."""
        last = max(1, self.artifacts - 1)
        return [self.mean * (0.2 + 1.6 * number / last) for number in range(self.artifacts)]

    @property
    def directories(self) -> int:
        """Artifact directories in all."""
        return self.targets * self.artifacts


@dataclass(frozen=True, slots=True)
class Machines:
    """Where a run takes place."""

    count: int
    cores: int = 16
    network: float = 1.25 * GB
    """Bytes a second that each machine can receive and send, together."""
    store: float = 5 * GB
    """Bytes a second that the store can hand out and take in, together, to and from all machines."""
    latency: float = 0.0002
    """Seconds that the coordinator waits for the store for each file of a scan."""


@dataclass(frozen=True, slots=True)
class Work:
    """One task."""

    processor: float
    """Seconds of one core."""
    traffic: float
    """Bytes that it reads and writes."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Tasks that can all run at once; the next stage begins when they have ended."""

    name: str
    tasks: tuple[Work, ...] = ()
    alone: float = 0.0
    """Seconds that the coordinator takes for it, meanwhile nobody else works."""


def stages(job: str, release: Release, machines: Machines, costs: Costs) -> list[Stage]:
    """What a job does, stage after stage."""
    files = release.directories * release.files
    sizes = [size for _ in range(release.targets) for size in release.sizes()]
    looked_into = release.kernels * costs.check_kernel
    tables = release.kernels * release.manifest
    begin = [
        Stage("start", alone=costs.start),
        Stage("scan and plan", alone=files * (costs.scan_file + machines.latency)),
    ]
    if job == "inspect, content":
        read = release.kernels * costs.content_kernel
        # Bundles of many bytes are cut into parts of 256 MiB (kpacktools.tasks.checking).
        parts = [(size, max(1, round(size / (1 << 28)))) for size in sizes]
        tasks = [
            Work((looked_into + read / count) + size / count * costs.content_byte, size / count + tables)
            for size, count in parts
            for _ in range(count)
        ]
        return [*begin, Stage("check", tuple(tasks))]
    begin.append(Stage("check", tuple(Work(looked_into, tables) for _ in sizes)))
    if job == "inspect, toc":
        return begin
    if job == "merge, copies":
        copied = [Work(release.files * costs.copy_file + size * costs.copy_byte, 2 * size) for size in sizes]
        return [*begin, Stage("write", tuple(copied))]
    assert job == "wheels", job
    whole = sum(release.sizes())
    packed = release.artifacts * release.files * costs.wheel_file + whole * costs.wheel_byte
    return [*begin, Stage("write", tuple(Work(packed, 2 * whole) for _ in range(release.targets)))]


JOBS: Final = ("inspect, toc", "inspect, content", "merge, copies", "wheels")


def fair_shares(room: float, wanted: Sequence[float]) -> list[float]:
    """How much each gets of what there is: nobody more than wanted, and nobody less than others who want more.

    >>> fair_shares(10.0, [2.0, 9.0, 9.0])
    [2.0, 4.0, 4.0]
    """
    shares = [0.0] * len(wanted)
    for place, index in enumerate(sorted(range(len(wanted)), key=wanted.__getitem__)):
        shares[index] = min(wanted[index], room / (len(wanted) - place))
        room -= shares[index]
    return shares


class _Machine:
    """What runs on one machine, and how fast, until something changes."""

    def __init__(self) -> None:
        self.running: list[Work] = []
        self.next_end = float("inf")
        """When its next task ends, if nothing changes before."""
        self._left: list[float] = []
        """Part of each that was to be done when something changed last."""
        self._speeds: list[float] = []
        """Part of each that is done in a second."""
        self._since = 0.0
        self._given: float | None = None

    def wanted(self) -> list[float]:
        """Bytes a second that each would read and write if nobody else did."""
        return [work.traffic / max(work.processor, 1e-9) for work in self.running]

    def begin(self, work: Work, now: float) -> None:
        """A task begins."""
        self._settle(now)
        self.running.append(work)
        self._left.append(1.0)
        self._given = None

    def end(self, now: float) -> None:
        """What has been done ends."""
        self._settle(now)
        # What is left of a task that ends is what the arithmetic could not tell from nothing.
        rest = [(work, left) for work, left in zip(self.running, self._left, strict=True) if left > 1e-9]
        self.running = [work for work, _ in rest]
        self._left = [left for _, left in rest]
        self._given = None

    def share(self, given: float, wanted: Sequence[float], now: float) -> None:
        """From now on there are ``given`` bytes a second for all that runs."""
        if given == self._given:
            return
        self._settle(now)
        self._given = given
        self._speeds = [
            # As slow as its processor, or as its share of the network.
            min(1 / max(work.processor, 1e-9), part / work.traffic if work.traffic else float("inf"))
            for work, part in zip(self.running, fair_shares(given, wanted), strict=True)
        ]
        ends = (left / speed for left, speed in zip(self._left, self._speeds, strict=True))
        self.next_end = now + min(ends, default=float("inf"))

    def _settle(self, now: float) -> None:
        if now > self._since:
            passed = now - self._since
            self._left = [x - passed * speed for x, speed in zip(self._left, self._speeds, strict=True)]
        self._since = now


def simulate(stage: Stage, machines: Machines, per_task: float) -> float:
    """The seconds that a stage takes. ``per_task`` are the coordinator's for each task, one after the other."""
    waiting = sorted(stage.tasks, key=lambda work: (work.traffic, work.processor))
    all_of_them = [_Machine() for _ in range(machines.count)]
    wanted: list[list[float]] = [[] for _ in all_of_them]
    now, sent = 0.0, per_task
    while True:
        # Begin what can begin: each on the machine that has most room.
        while waiting and now >= sent - 1e-12:
            number = min(range(machines.count), key=lambda n: len(all_of_them[n].running))
            if len(all_of_them[number].running) == machines.cores:
                break
            all_of_them[number].begin(waiting.pop(), now)
            wanted[number] = all_of_them[number].wanted()
            sent = max(sent, now) + per_task
        asked = [min(machines.network, sum(each)) for each in wanted]
        for number, given in enumerate(fair_shares(machines.store, asked)):
            all_of_them[number].share(given, wanted[number], now)
        upcoming = min(machine.next_end for machine in all_of_them)
        if waiting and any(len(machine.running) < machines.cores for machine in all_of_them):
            upcoming = min(upcoming, max(sent, now))
        if upcoming == float("inf"):
            return now + stage.alone
        now = upcoming
        for number, machine in enumerate(all_of_them):
            if machine.next_end <= now:
                machine.end(now)
                wanted[number] = machine.wanted()


def limit(stage: Stage, machines: Machines, per_task: float) -> tuple[float, str]:
    """The least seconds that a stage can take, and what demands them."""
    processor = sum(work.processor for work in stage.tasks)
    traffic = sum(work.traffic for work in stage.tasks)
    slots = machines.count * machines.cores
    longest = max(
        (max(w.processor, w.traffic / min(machines.network, machines.store)) for w in stage.tasks),
        default=0.0,
    )
    return max(
        (stage.alone, "the coordinator"),
        (len(stage.tasks) * per_task, "the coordinator"),
        (processor / slots, "the processors"),
        (traffic / (machines.count * machines.network), "the machines' network"),
        (traffic / machines.store, "the store"),
        (longest, "the largest task"),
        (processor / min(slots, max(1, len(stage.tasks))), f"the number of tasks ({len(stage.tasks)})")
        if len(stage.tasks) < slots
        else (0.0, ""),
    )


def prediction(job: str, release: Release, machines: Machines, costs: Costs) -> tuple[float, str]:
    """Seconds of a job, and what limits the stage that takes longest."""
    parts = [(simulate(s, machines, costs.task), s) for s in stages(job, release, machines, costs)]
    longest = max(parts, key=lambda part: part[0])[1]
    return sum(seconds for seconds, _ in parts), f"{longest.name}: {limit(longest, machines, costs.task)[1]}"


def tables(
    costs: Costs,
    release: Release,
    counts: Sequence[int],
    stores: Sequence[float],
    machine: Machines,
    measured_on: str,
) -> Iterator[str]:
    """The lines of docs/scale.md."""
    yield f"Measured on {measured_on}:"
    yield ""
    yield "| cost | |"
    yield "|---|--:|"
    for text, value in _cost_rows(costs):
        yield f"| {text} | {value} |"
    yield ""
    yield (
        f"{release.targets} targets x {release.artifacts} artifacts x {release.mean / GB:g} GB, with "
        f"{release.files:,} files and {release.kernels:,} kernels in each: "
        f"{release.directories * release.mean / 1e12:g} TB, {release.directories * release.files:,} files, "
        f"{release.directories * release.kernels:,} kernels. Machines of {machine.cores} cores with "
        f"{machine.network / GB:g} GB/s of network each; {machine.latency * 1e3:g} ms for each file that is scanned; "
        "in brackets, how much faster than one machine:"
    )
    yield ""
    named = [f"a store of {store / GB:g} GB/s" for store in stores]
    yield f"| job | machines | {' | limited by | '.join(named)} | limited by |"
    yield "|---|--:|" + "--:|---|" * len(stores)
    for job in JOBS:
        first: dict[float, float] = {}
        for count in counts:
            cells = [job, str(count)]
            for store in stores:
                machines = replace(machine, count=count, store=store)
                seconds, why = prediction(job, release, machines, costs)
                ratio = first.setdefault(store, seconds) / seconds
                cells += [f"{_time(seconds)} ({ratio:.1f})", why]
            yield f"| {' | '.join(cells)} |"


def _cost_rows(costs: Costs) -> Iterator[tuple[str, str]]:
    yield "start of a run with workers", f"{costs.start:.1f} s"
    yield "a task, on the coordinator", f"{costs.task * 1e3:.1f} ms"
    yield "a file: scan, claim and plan, on the coordinator", f"{costs.scan_file * 1e6:.0f} µs"
    yield "a loose code object, depth toc", f"{costs.check_file * 1e6:.0f} µs"
    yield "a kernel, depth toc", f"{costs.check_kernel * 1e6:.1f} µs"
    yield "a kernel, depth content, apart from its bytes", f"{costs.content_kernel * 1e6:.0f} µs"
    yield "bytes of kernels, depth content", f"{1e-9 / costs.content_byte:.2f} GB/s"
    yield "a file that a merge copies", f"{costs.copy_file * 1e6:.0f} µs"
    yield "bytes that a merge copies", f"{1e-9 / costs.copy_byte:.2f} GB/s"
    yield "a small file in a wheel", f"{costs.wheel_file * 1e6:.0f} µs"
    yield "bytes of kpacks in a wheel", f"{1e-9 / costs.wheel_byte:.2f} GB/s"


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def read_costs(path: Path) -> tuple[Costs, str]:
    """Constants that were written by ``--measure``, and where that was."""
    document = json.loads(path.read_text("utf-8"))
    if document.get("schema") != SCHEMA:
        raise SystemExit(f"scale.py: error: {path} is no {SCHEMA}")
    return Costs(**document["costs"]), document["measured_on"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="A release on many machines, simulated.")
    parser.add_argument("--constants", type=Path, default=CONSTANTS, metavar="FILE")
    parser.add_argument("--measure", type=Path, metavar="FILE", help="measure the constants and write them")
    parser.add_argument("--dir", type=Path, metavar="DIR", help="with --measure: work here")
    parser.add_argument("--machines", default="1,4,16", metavar="N,...", help="default: %(default)s")
    shown = Machines(1)
    parser.add_argument("--cores", type=int, default=shown.cores, metavar="N", help="default: %(default)s")
    parser.add_argument("--network", type=float, default=shown.network / GB, metavar="GB/s")
    parser.add_argument("--store", default="5,20", metavar="GB/s,...", help="default: %(default)s")
    parser.add_argument("--latency", type=float, default=shown.latency * 1e3, metavar="MS")
    for field in fields(Release):
        default: Any = field.default
        if field.name == "mean":
            parser.add_argument(
                "--gigabytes", type=float, default=default / GB, metavar="GB", help="of an artifact"
            )
        elif field.name != "manifest":
            parser.add_argument(f"--{field.name}", type=int, default=default, metavar="N")
    options = parser.parse_args(arguments)
    if options.measure is not None:
        from scale_costs import measure

        write_costs(options.measure, *measure(options.dir))
        return 0
    costs, measured_on = read_costs(options.constants)
    release = Release(
        options.targets, options.artifacts, options.gigabytes * GB, options.files, options.kernels
    )
    machine = Machines(1, options.cores, options.network * GB, latency=options.latency / 1e3)
    counts = [int(text) for text in options.machines.split(",")]
    stores = [float(text) * GB for text in options.store.split(",")]
    for line in tables(costs, release, counts, stores, machine, measured_on):
        print(line)
    return 0


def write_costs(path: Path, costs: Mapping[str, float], measured_on: str) -> None:
    """Write constants, with as many digits as they can claim."""
    rounded = {name: float(f"{value:.3g}") for name, value in costs.items()}
    document = {"schema": SCHEMA, "measured_on": measured_on, "costs": rounded}
    path.write_text(json.dumps(document, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    sys.exit(main())
