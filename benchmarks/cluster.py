#!/usr/bin/env python3
"""What workers cost and bring: the same commands with --jobs and with Dask workers on this machine, in alternation::

    python benchmarks/cluster.py [--only W5] [--job wheel] [--repeat 3] [--workers 1,2] [--quick] [--dir DIR]

Needs the extra ``kpacktools[dask]``. *Start-up* is the same command on an almost empty input: Dask's imports and the
workers' own. It is taken off before anything is compared. docs/scale.md says how to read the table.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from inputs import shards_of
from race import BenchmarkError, Contender, Race, Result, Track, by_name
from run import MEMORY
from workloads import kpacktools, make_input

__all__ = ["main"]

WORKLOADS: Final = ("W1", "W4", "W5")


@dataclass(frozen=True, slots=True)
class Job:
    """One command on one input."""

    name: str
    words: tuple[str, ...]
    takes_shards: bool = True
    """Its inputs are shards, each on its own; else the folder that holds them."""

    def contender(self, root: Path, *options: str, name: str) -> Contender:
        paths = shards_of(root) if self.takes_shards else [root / "shards"]
        return kpacktools(self.words[0], *paths, *self.words[1:], *options, name=name)


JOBS: Final = (
    Job("inspect, toc", ("inspect", "--depth", "toc"), takes_shards=False),
    Job("inspect, content", ("inspect", "--depth", "content"), takes_shards=False),
    Job("merge, copies", ("merge", "--link", "copy")),
    Job("wheel", ("wheel", "--version", "1.0")),
)


@dataclass(frozen=True, slots=True)
class Row:
    """One way to do a job."""

    way: str
    seconds: float
    """Least seconds, start-up apart."""
    start: float
    """Least seconds of start-up."""
    cpu: float
    """Least processor seconds of all processes, start-up apart."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line: 0 where everything was measured, 2 where it could not be."""
    parser = argparse.ArgumentParser(description="Measure Dask workers against --jobs.")
    parser.add_argument("--only", default=",".join(WORKLOADS), metavar="W1,...", help="default: %(default)s")
    parser.add_argument(
        "--repeat", type=int, default=3, metavar="N", help="runs of each; default: %(default)s"
    )
    names = [job.name for job in JOBS]
    parser.add_argument("--job", action="append", choices=names, help="may be repeated; default: all")
    parser.add_argument("--workers", default="1,2", metavar="N,...", help="default: %(default)s")
    parser.add_argument("--quick", action="store_true", help="a tenth of the size: a smoke test")
    parser.add_argument("--dir", type=Path, default=MEMORY, metavar="DIR", help="default: %(default)s")
    options = parser.parse_args(arguments)
    jobs = [job for job in JOBS if options.job is None or job.name in options.job]
    workers = [int(text) for text in options.workers.split(",")]
    print("| input, job | way | seconds | against 1 job | processor seconds | start-up |")
    print("|---|---|--:|--:|--:|--:|", flush=True)
    try:
        for name in options.only.split(","):
            root = Path(tempfile.mkdtemp(prefix="kpacktools-bench-", dir=options.dir))
            try:
                _measure(
                    Track(root, options.repeat, lambda text: None), name, jobs, workers, quick=options.quick
                )
            finally:
                shutil.rmtree(root, ignore_errors=True)
    except BenchmarkError as error:
        print(f"cluster.py: error: {error}", file=sys.stderr)
        return 2
    return 0


def _measure(track: Track, name: str, jobs: Sequence[Job], workers: Sequence[int], *, quick: bool) -> None:
    start = make_input(track, "start")
    root = make_input(track, name, quick=quick)
    ways = {
        **{f"{count} job{'s' * (count > 1)}": ("--jobs", str(count)) for count in (1, 2)},
        **{f"{count} worker{'s' * (count > 1)}": ("--scheduler", f"local:{count}") for count in workers},
    }
    for job in jobs:
        contenders = [
            job.contender(place, *options, name=f"{way} {kind}")
            for way, options in ways.items()
            for kind, place in (("start", start), ("full", root))
        ]
        results = by_name(track.run(Race(f"{name} {job.name}", contenders)))
        rows = list(_rows(ways, results))
        for row in rows:
            ratio = rows[0].seconds / row.seconds
            print(
                f"| {name} {job.name} | {row.way} | {row.seconds:.2f} | {ratio:.2f} | {row.cpu:.2f} "
                f"| {row.start:.2f} |",
                flush=True,
            )


def _rows(ways: Mapping[str, object], results: Mapping[str, Result]) -> Iterator[Row]:
    for way in ways:
        start, full = results[f"{way} start"], results[f"{way} full"]
        cpu = min(s.cpu for s in full.samples) - min(s.cpu for s in start.samples)
        yield Row(way, max(full.best - start.best, 1e-3), start.best, cpu)


if __name__ == "__main__":
    sys.exit(main())
