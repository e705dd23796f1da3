"""Progress: bars on a terminal, silence everywhere else."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from builders import Build
from kpacktools.progress import SILENT
from kpacktools.reports import terminal as terminal_module
from kpacktools.reports.terminal import progress_for


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")
    return Terminal()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is drawn at once."""
    monkeypatch.setattr(terminal_module, "_PATIENCE", 0)
    monkeypatch.setattr(terminal_module, "_INTERVAL", 0)


def test_a_pipe_and_a_quiet_run_see_nothing(terminal: Terminal) -> None:
    assert progress_for(io.StringIO(), quiet=False) is SILENT
    assert progress_for(terminal, quiet=True) is SILENT


@pytest.mark.usefixtures("impatient")
def test_a_terminal_sees_the_stage_with_bytes_and_time(terminal: Terminal) -> None:
    progress = progress_for(terminal, quiet=False)
    progress.start("writing", files=3, size=2_000_000)
    progress.advance(size=1_000_000)
    progress.stop()
    last = terminal.getvalue().rpartition("writing (3 files)")[2]
    assert "1.0/2.0 MB" in last
    assert "0:00:00" in last


@pytest.mark.usefixtures("impatient")
def test_more_bytes_than_were_announced_leave_the_end_open(terminal: Terminal) -> None:
    progress = progress_for(terminal, quiet=False)
    progress.start("checking", size=1000)
    progress.advance(size=3000)
    progress.stop()
    assert "3.0/? kB" in terminal.getvalue().rpartition("checking")[2]


@pytest.mark.usefixtures("impatient")
def test_a_stage_of_unknown_size_does_not_inherit_that_of_the_stage_before(terminal: Terminal) -> None:
    progress = progress_for(terminal, quiet=False)
    progress.start("checking", size=1000)
    progress.start("writing")
    progress.stop()
    assert "0/? bytes" in terminal.getvalue().rpartition("writing")[2]


def test_a_short_run_shows_nothing(terminal: Terminal) -> None:
    progress = progress_for(terminal, quiet=False)
    progress.start("writing", size=2)
    progress.advance(size=1)
    progress.stop()
    assert terminal.getvalue() == ""


def test_a_long_run_is_seen_though_nobody_tells_of_work(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal_module, "_PATIENCE", 0.01)
    progress = progress_for(terminal, quiet=False)
    progress.start("scanning 2 inputs")
    until = time.monotonic() + 30
    while "scanning 2 inputs" not in terminal.getvalue() and time.monotonic() < until:
        time.sleep(0.01)
    progress.stop()
    assert "scanning 2 inputs" in terminal.getvalue()


@pytest.mark.usefixtures("impatient")
def test_no_thread_runs_beside_one_that_is_alone(terminal: Terminal) -> None:
    before = threading.active_count()
    progress = progress_for(terminal, quiet=False)
    assert threading.active_count() == before + 1
    with progress.alone():
        assert threading.active_count() == before
        progress.start("checking", size=10)
        progress.advance(size=5)
        assert "5/10 bytes" in terminal.getvalue()
    assert threading.active_count() == before + 1
    progress.stop()
    progress.stop()
    progress.advance(size=1)
    assert threading.active_count() == before


@pytest.fixture
def in_terminal() -> Iterator[Callable[..., str]]:
    """Runs the command line on a terminal of its own, where every run is a long one; returns what that shows."""
    pty = pytest.importorskip("pty")
    code = (
        "import sys; from kpacktools.reports import terminal; terminal._PATIENCE = 0\n"
        "from kpacktools.cli import run; sys.exit(run(sys.argv[1:]))"
    )
    master, slave = pty.openpty()

    def run(*words: object) -> str:
        subprocess.run(
            [sys.executable, "-c", code, *map(str, words)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=slave,
            env={**os.environ, "TERM": "xterm"},
            check=False,
            timeout=60,
        )
        os.write(slave, b"[end]")
        shown = b""
        while not shown.endswith(b"[end]"):
            shown += os.read(master, 1 << 16)
        return shown.decode()

    yield run
    os.close(master)
    os.close(slave)


HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"


def test_an_error_is_a_line_of_its_own_and_the_cursor_is_back(
    in_terminal: Callable[..., str], build: Callable[..., Build]
) -> None:
    shard = build("gfx942")
    shard.rocke("gfx942")
    shown = in_terminal("merge", shard.root, "-o", shard.root / "out")
    bar, back, line = shown.rpartition(SHOW)
    assert HIDE in bar
    assert back
    assert "kpacktools: error: " in line
    assert "scanning" not in line
