"""Progress: bars on a terminal, silence everywhere else."""

from __future__ import annotations

import io

import pytest

from kpacktools.progress import SILENT
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


def test_a_pipe_and_a_quiet_run_see_nothing(terminal: Terminal) -> None:
    assert progress_for(io.StringIO(), quiet=False) is SILENT
    assert progress_for(terminal, quiet=True) is SILENT


def test_a_terminal_sees_the_stage_with_bytes_and_time(terminal: Terminal) -> None:
    progress = progress_for(terminal, quiet=False)
    progress.start("writing", files=3, size=2_000_000)
    progress.advance(size=1_000_000)
    progress.stop()
    last = terminal.getvalue().rpartition("writing (3 files)")[2]
    assert "1.0/2.0 MB" in last
    assert "0:00:00" in last


def test_more_bytes_than_were_announced_leave_the_end_open(terminal: Terminal) -> None:
    progress = progress_for(terminal, quiet=False)
    progress.start("checking", size=1000)
    progress.advance(size=3000)
    progress.stop()
    assert "3.0/? kB" in terminal.getvalue().rpartition("checking")[2]


def test_a_stage_of_unknown_size_does_not_inherit_that_of_the_stage_before(terminal: Terminal) -> None:
    progress = progress_for(terminal, quiet=False)
    progress.start("checking", size=1000)
    progress.start("writing")
    progress.stop()
    assert "0/? bytes" in terminal.getvalue().rpartition("writing")[2]
