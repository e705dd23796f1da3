#!/usr/bin/env python3
"""Measure kpacktools against floors and peers on the same files, in alternation::

    python benchmarks/run.py [--only W1,W3] [--repeat 5] [--quick] [--json FILE] [--aiter DIR] [--dir DIR]

kpacktools has to be installed for the interpreter that runs this; the extra ``bench`` and therock-tools bring
the peers. What is compared, and how to read the table: docs/performance.md. Linux only.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from aiter import Unavailable
from race import BenchmarkError, Track
from report import as_json, as_table
from workloads import WORKLOADS, Finished, Setting, Workload, make_input, run_startup

__all__ = ["main"]

MEMORY = Path("/dev/shm")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line: 0 where all that was asked for was measured, 2 where it could not be."""
    options = _parser().parse_args(arguments)
    wanted = set(options.only.split(",")) if options.only else {workload.name for workload in WORKLOADS}
    unknown = wanted - {workload.name for workload in WORKLOADS}
    if unknown:
        return _refuse(f"--only: there is no {', '.join(sorted(unknown))}")
    finished: list[Finished] = []
    left_out: dict[str, str] = {}
    try:
        for workload in (w for w in WORKLOADS if w.name in wanted):
            _run(workload, options, finished, left_out)
    except BenchmarkError as error:
        return _refuse(str(error))
    if options.json is not None:
        options.json.write_text(as_json(finished, left_out), encoding="utf-8")
    missed = [f"{item.race.title}: {v.text}" for item in finished for v in item.verdicts if not v.ok]
    total = sum(len(item.verdicts) for item in finished)
    print(
        f"{total - len(missed)} of {total} targets kept" + "".join(f"\n  missed: {text}" for text in missed)
    )
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Measure kpacktools against floors and peers.")
    names = ", ".join(f"{workload.name}: {workload.text}" for workload in WORKLOADS)
    parser.add_argument("--only", metavar="W1,...", help=f"these workloads only ({names})")
    parser.add_argument(
        "--repeat", type=int, default=5, metavar="N", help="runs of each; default: %(default)s"
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the size and one run: a smoke test")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all samples to FILE")
    parser.add_argument(
        "--aiter", type=Path, metavar="DIR", help="shards of W2; default: out of AITER's wheel"
    )
    parser.add_argument(
        "--dir", type=Path, metavar="DIR", help="work here; default: /dev/shm where there is room"
    )
    return parser


def _run(
    workload: Workload, options: argparse.Namespace, finished: list[Finished], left_out: dict[str, str]
) -> None:
    """Run one workload in a folder that is gone afterwards, and print its table."""
    place = options.dir or (MEMORY if _room(MEMORY) > workload.room * 3 // 2 else Path(tempfile.gettempdir()))
    if _room(place) < workload.room:
        left_out[workload.name] = f"{place} has no room for {workload.room} MB"
        print(f"{workload.name}: left out, {left_out[workload.name]}\n")
        return
    root = Path(tempfile.mkdtemp(prefix="kpacktools-bench-", dir=place))
    try:
        track = Track(root, 1 if options.quick else options.repeat, _tell)
        setting = Setting(track, make_input(track, "start"), options.quick, options.aiter)
        if not finished:
            _show(run_startup(setting), finished)
        for item in workload.run(setting):
            _show(item, finished)
    except Unavailable as reason:
        left_out[workload.name] = str(reason)
        print(f"{workload.name}: left out, {reason}\n")
    finally:
        _tell(f"{workload.name}: cleaning up")
        shutil.rmtree(root, ignore_errors=True)
        _tell("")


def _show(item: Finished, finished: list[Finished]) -> None:
    _tell("")
    finished.append(item)
    print(as_table(item), flush=True)


def _room(place: Path) -> int:
    """Free MB."""
    try:
        status = os.statvfs(place)
    except OSError:
        return 0
    return status.f_bavail * status.f_frsize // 1_000_000


def _tell(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def _refuse(message: str) -> int:
    print(f"run.py: error: {message}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
