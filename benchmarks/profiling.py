#!/usr/bin/env python3
"""Where a command's time goes: run it in one thread under cProfile and print what takes most::

    python benchmarks/profiling.py [--top N] [--by tottime|cumulative] merge A B -o OUT

Calls cost more under the profiler than without, so many cheap ones look dearer than they are.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import cProfile
import pstats
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from typing import Any

__all__ = ["Inline", "main"]


class Inline(Executor):
    """Makes each call at once, in the calling thread: the only one that cProfile sees."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def submit(self, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """The outcome of a call that was made already; what it raised is raised here."""
        outcome: Future[Any] = Future()
        outcome.set_result(call(*args, **kwargs))
        return outcome


def main(arguments: Sequence[str] | None = None) -> int:
    """Profile one command and return its exit status."""
    parser = argparse.ArgumentParser(description="Profile a command of kpacktools in one thread.")
    parser.add_argument("--top", type=int, default=25, metavar="N", help="lines; default: %(default)s")
    parser.add_argument("--by", default="tottime", choices=["tottime", "cumulative"])
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND ...")
    options = parser.parse_args(arguments)
    concurrent.futures.ThreadPoolExecutor = Inline  # type: ignore[misc, assignment]
    from kpacktools.cli import run  # binds the executor that it finds

    profiler = cProfile.Profile()
    profiler.enable()
    status = run([*options.command, "--jobs", "1"])
    profiler.disable()
    pstats.Stats(profiler, stream=sys.stderr).sort_stats(options.by).print_stats(options.top)
    return status


if __name__ == "__main__":
    sys.exit(main())
