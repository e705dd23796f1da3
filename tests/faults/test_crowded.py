"""A machine that is busy with other things: how the work is shared out among threads shows in no byte.

``KPACKTOOLS_BUSY=4`` lets four processes do nothing as fast as they can meanwhile, and not just two.
"""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fault_runs import SHARDS, STAGE, digest, entries, leftovers

from kpacktools.cli import run

BUSY = int(os.environ.get("KPACKTOOLS_BUSY", "2"))
PREFIX = ("--artifact", "hipkernelprovider", "--stage", STAGE)


@pytest.fixture(scope="module", autouse=True)
def _busy() -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for _ in range(BUSY):
            process = stack.enter_context(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
            stack.callback(process.kill)
        yield


def said(*words: str | Path) -> str:
    """What a command that succeeds prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert run([str(word) for word in words]) == 0
    return out.getvalue()


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("crowded") / "prefix"
    said("merge", *sorted(SHARDS.iterdir()), "-o", out, "--flatten")
    return out


@pytest.mark.parametrize(
    "command",
    [
        ("merge", "{shards}"),
        ("merge", "{shards}", "--flatten"),
        ("merge", "{shards}", "--archive", "zst"),
        ("merge", "{shards}", "--archive", "xz"),
        ("split", "{prefix}", *PREFIX),
        ("wheel", "{shards}", "--version", "7.15.0"),
    ],
    ids=["merge", "flatten", "zst", "xz", "split", "wheel"],
)
def test_any_number_of_jobs_gives_the_same_bytes_and_report(
    command: tuple[str, ...], prefix: Path, tmp_path: Path
) -> None:
    words: list[str | Path] = []
    for word in command:
        words += sorted(SHARDS.iterdir()) if word == "{shards}" else [word.format(prefix=prefix, shards="")]
    before = digest(SHARDS)
    results = []
    for jobs in ("1", "2", "20"):
        out = tmp_path / jobs / "out"
        report = said(*words, "-o", out, "--jobs", jobs, "--format", "json")
        results.append((entries(out), report.replace(str(out), "OUT")))
        assert leftovers(out, out.parent) == []
    assert results[0] == results[1] == results[2]
    assert digest(SHARDS) == before


@pytest.mark.parametrize("depth", ["layout", "toc", "content"])
def test_any_number_of_jobs_finds_the_same(depth: str) -> None:
    words = ("inspect", SHARDS, "--depth", depth, "--format", "json")
    reports = {said(*words, "--jobs", jobs) for jobs in ("1", "2", "20")}
    assert len(reports) == 1
