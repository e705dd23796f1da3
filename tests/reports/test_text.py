"""The report as text: on narrow terminals, in pipes, and with its reasons."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from builders import STAGE, Build, code_object
from kpacktools import commands
from kpacktools.findings import finding
from kpacktools.pipeline import Settings
from kpacktools.planning.merge import Counts
from kpacktools.reports.model import Report
from kpacktools.reports.text import as_text

Maker = Callable[..., Build]
TARGETS = ("gfx906", "gfx908", "gfx90a", "gfx942", "gfx950", "gfx1030", "gfx1100", "gfx1201")


@pytest.fixture
def wide(build: Maker, settings: Settings) -> Report:
    """More engines and targets than fit side by side."""
    shards = [build(target) for target in TARGETS]
    for target, shard in zip(TARGETS, shards, strict=True):
        shard.rocke(target)
        shard.kernel_provider(target)
        for engine in ("aiter", "aot_catalog", "asm_kernels"):
            shard.put(f"arch_content/{engine}/{target}/k.co", code_object(target))
    return commands.inspect([str(shard.root) for shard in shards], settings)


@pytest.mark.parametrize("width", ["80", "60"])
def test_tables_fit_a_narrow_terminal(wide: Report, monkeypatch: pytest.MonkeyPatch, width: str) -> None:
    monkeypatch.setenv("COLUMNS", width)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    table = as_text(wide, terminal=True).partition("kernels and bytes")[0]
    assert max(map(len, table.splitlines())) <= int(width)
    assert "…" not in table
    assert "hip-kernel-provider" in table


def test_a_pipe_gets_no_colour(wide: Report) -> None:
    assert "\x1b" not in as_text(wide)


def test_a_terminal_gets_colour_unless_no_color_says_otherwise(
    build: Maker, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    shard = build("gfx942")
    shard.rocke("gfx942", ["a"], archive=["b"])
    report = commands.inspect([str(shard.root)], settings)
    assert "\x1b[1;31m" in as_text(report, terminal=True)
    monkeypatch.setenv("NO_COLOR", "1")
    plain = as_text(report, terminal=True)
    assert not [code for code in ("31m", "33m", "36m") if code in plain]


def test_a_required_cell_that_is_empty_says_so(build: Maker, settings: Settings) -> None:
    shard = build("gfx942")
    shard.rocke("gfx942")
    report = commands.inspect([str(shard.root)], settings, ["aiter:gfx942"])
    assert "aiter   ✗ missing\n" in as_text(report)


def test_verbose_says_why_content_is_claimed_or_generic(build: Maker, settings: Settings) -> None:
    shard = build("gfx942").host()
    place = shard.rocke("gfx942")
    database = shard.artifact / STAGE / "share/miopen/db/gfx942130.kdb"
    database.parent.mkdir(parents=True)
    database.write_bytes(b"db")
    (database.parent / "readme.txt").write_text("generic")
    report = commands.inspect([str(shard.root)], settings)
    text = as_text(report, verbose=True)
    assert f"  rocke gfx942 (2 files): handler rocke, folder gfx942 in {place.parent}\n" in text
    assert f"  miopen gfx942 (1 file): handler miopen, file names in {database.parent}\n" in text
    engines = f"{STAGE}/lib/hipdnn_plugins/engines"
    generic = f"  {shard.artifact} (2 files): in {engines} (1), {STAGE}/share/miopen/db (1)\n"
    assert generic in text
    assert "handler rocke, folder" not in as_text(report)


def test_verbose_shortens_long_lists_of_generic_folders(build: Maker, settings: Settings) -> None:
    shard = build("gfx942")
    for folder in "abcde":
        shard.put(f"{folder}/x.txt", "x")
    text = as_text(commands.inspect([str(shard.root)], settings), verbose=True)
    assert " (5 files): in " in text
    assert "/c (1), 2 more folders\n" in text


@pytest.mark.parametrize("command", ["inspect", "artifacts check", "topology check"])
def test_a_command_that_never_writes_neither_refuses_nor_counts_what_came_out(command: str) -> None:
    counts = Counts(files_in=2, files_out=2)
    assert as_text(Report(command, (), counts=counts)) == f"ok  {command}\n"
    problem = finding("topology-invalid", "T.toml", "says nonsense")
    verdict = as_text(Report(command, (problem,), counts=counts)).splitlines()[-1]
    assert verdict == f"not ok  {command}: 1 error"


def test_a_command_that_writes_says_that_it_did_not() -> None:
    problem = finding("content-conflict", "a", "differs")
    assert as_text(Report("merge", (problem,))).endswith("refused  merge: 1 error; nothing was written\n")
