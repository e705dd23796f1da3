"""Console blocks of the documentation: run, and compared with the output that the page shows.

A block whose info string has the word ``tested`` is a session that starts where the page's previous one ended::

    ```console tested               the whole output of every command
    ```console tested head=12       its first twelve lines, then "..."
    ```console tested tail=3        "...", then its last three lines
    ```console tested grep=RE       the lines that match, which has no space
    ```console tested finding=NAME  the lines of one finding

Lines that begin with ``$`` are commands, lines that begin with ``>`` continue them, the rest is output.

    python tests/console_blocks.py PAGE...

writes the output of today into the pages.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kpacktools.cli import run

__all__ = ["Block", "blocks", "commands", "normalised", "prepare", "refreshed"]

REPOSITORY = Path(__file__).resolve().parent.parent
_FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
_WORKSPACE = re.compile(r"<!-- workspace: (.*?) -->")
_SIZE = re.compile(r"\d+(?:\.\d+)? (?:B|KB|MB|bytes)\b")
_SHELL = re.compile(r"[|&;<>$`*?~#]")


class Block(NamedTuple):
    """One fenced block of a page."""

    info: tuple[str, ...]
    """The words after the fence: ``("console", "tested")``."""
    body: str
    line: int
    """Number of its first line in the page."""


def blocks(page: str, language: str) -> list[Block]:
    """The blocks of a page in one language."""
    found = []
    for match in _FENCE.finditer(page):
        info = tuple(match["info"].split())
        if info[:1] == (language,):
            found.append(Block(info, match["body"], page.count("\n", 0, match.start("body")) + 1))
    return found


def commands(body: str) -> list[str]:
    """The command lines of a console block."""
    return [command for command, _ in _steps(body)]


def _steps(body: str) -> Iterator[tuple[str, str]]:
    """Each command of a console block, with the lines that the page shows it in."""
    command, source = "", ""
    for line in body.splitlines(keepends=True):
        if line.startswith("$ "):
            if source:
                yield command, source
            command, source = line[2:].rstrip("\n"), line
        elif line.startswith(">") and source.count("\n") == command.count("\n") + 1:
            command, source = f"{command}\n{line[2:].rstrip()}", source + line
    if source:
        yield command, source


def prepare(page: str, folder: Path) -> None:
    """Put into a folder what the sessions of a page start with: ``<!-- workspace: shards -->`` in the page says it,
    for lack of which it is the two prefixes that the pages of findings use."""
    match = _WORKSPACE.search(page)
    for word in match[1].split() if match else ("prefixes",):
        _WORKSPACES[word](folder)


def _prefixes(folder: Path) -> None:
    """Two small install prefixes, made of the engines' folders of two example shards."""
    for name, target in (("mi300", "gfx942"), ("mi350", "gfx950")):
        shard = REPOSITORY / "examples/shards" / target / f"hipkernelprovider_lib_{target}"
        shutil.copytree(
            shard / "ml-libs/hipkernelprovider/stage/lib/hipdnn_plugins/engines", folder / name, symlinks=True
        )


def _shards(folder: Path) -> None:
    shutil.copytree(REPOSITORY / "examples/shards", folder / "shards", symlinks=True)


def _checkout(folder: Path) -> None:
    _shards(folder / "examples")


def _builds(folder: Path) -> None:
    """The builds of one release, with all that is wrong with real ones."""
    from realistic import TARGETS, make_gfx906, make_shard

    for target in TARGETS:
        make_shard(folder / "builds", target)
    make_gfx906(folder / "builds")


_WORKSPACES = {"prefixes": _prefixes, "shards": _shards, "checkout": _checkout, "builds": _builds}


def refreshed(page: str, folder: Path) -> str:
    """The page with the true output in its tested blocks, run in ``folder`` (the working directory changes)."""
    os.chdir(folder)

    def renew(match: re.Match[str]) -> str:
        info = match["info"].split()
        if info[:2] != ["console", "tested"]:
            return match[0]
        body = "".join(
            source + _selected(_output(command), info[2:]) for command, source in _steps(match["body"])
        )
        return f"```{match['info']}\n{body}```"

    return _FENCE.sub(renew, page)


def _output(command: str) -> str:
    """What a command prints, stderr last."""
    if command.startswith("kpacktools ") and not _SHELL.search(command):
        # In this process: starting Python for each of the commands would take a minute.
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            run(shlex.split(command)[1:])
        return out.getvalue() + err.getvalue()
    environment = {**os.environ, "LC_ALL": "C.UTF-8"}
    environment["PATH"] = os.path.dirname(sys.executable) + os.pathsep + environment["PATH"]
    result = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, check=False, env=environment
    )
    if result.returncode and "kpacktools" not in command:
        raise ValueError(f"{command!r} failed: {result.stderr}")
    return result.stdout + result.stderr


def _selected(output: str, options: list[str]) -> str:
    """The part of a command's output that a block asks for."""
    lines = output.splitlines(keepends=True)
    for option in options:
        word, _, value = option.partition("=")
        if word == "head" and len(lines) > int(value):
            lines = [*lines[: int(value)], "...\n"]
        elif word == "tail" and len(lines) > int(value):
            lines = ["...\n", *lines[-int(value) :]]
        elif word == "grep":
            lines = [line for line in lines if re.match(value, line)]
        elif word == "finding":
            lines = _finding(lines, value)
    return "".join(lines)


def _finding(lines: list[str], name: str) -> list[str]:
    start = next((i for i, line in enumerate(lines) if line.split()[1:2] == [name]), len(lines))
    stop = next((i for i in range(start, len(lines)) if not lines[i].strip()), len(lines))
    return lines[start:stop]


def normalised(page: str) -> list[str]:
    """A page's lines without what may differ by library version: sizes in bytes, and the columns around them."""
    return [re.sub(r"\s+", " ", _SIZE.sub("SIZE", line)).strip() for line in page.splitlines()]


def main(pages: list[str]) -> None:
    """Write the output of today into pages."""
    for path in map(Path, pages):
        path = path.resolve()
        page = path.read_text("utf-8")
        with tempfile.TemporaryDirectory() as folder:
            prepare(page, Path(folder))
            renewed = refreshed(page, Path(folder))
            os.chdir(REPOSITORY)
        if normalised(renewed) != normalised(page):
            path.write_text(renewed, "utf-8")
            print(f"{path.relative_to(REPOSITORY)} is brought up to date")


if __name__ == "__main__":
    main(sys.argv[1:])
