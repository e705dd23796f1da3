"""Runs of the command line that something happens to, and what is left of inputs and outputs afterwards."""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
import sys
from pathlib import Path

from kpacktools.trees.names import is_staging_name

REPOSITORY = Path(__file__).resolve().parents[2]
SHARDS = REPOSITORY / "examples" / "shards"
STAGE = "ml-libs/hipkernelprovider/stage"


def command_line(*arguments: str | Path) -> list[str]:
    """The words of a command, for a process of its own."""
    return [sys.executable, "-m", "kpacktools", *map(str, arguments)]


def call(
    *arguments: str | Path, before: tuple[str, ...] = (), cwd: Path = REPOSITORY
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; ``before`` is what runs it (``setpriv ...``)."""
    command = [*before, *command_line(*arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd, timeout=120)


def one_line(stderr: str) -> str:
    """The one line that an unusable call ends with."""
    lines = stderr.splitlines()
    assert len(lines) == 1, stderr
    assert lines[0].startswith("kpacktools: error: ")
    assert "internal error" not in lines[0]
    return lines[0]


def digest(root: Path) -> str:
    """A digest of all names, kinds, modes, links and bytes at and below a path."""
    sha256 = hashlib.sha256()
    _add(sha256, str(root), "")
    return sha256.hexdigest()


def _add(sha256: hashlib._Hash, path: str, name: str) -> None:
    status = os.lstat(path)
    sha256.update(f"{name!r} {status.st_mode:o}\n".encode())
    if stat.S_ISDIR(status.st_mode):
        for child in sorted(os.listdir(path)):
            _add(sha256, f"{path}/{child}", f"{name}/{child}")
    elif stat.S_ISLNK(status.st_mode):
        sha256.update(os.readlink(path).encode())
    elif stat.S_ISREG(status.st_mode):
        with open(path, "rb") as stream:
            while chunk := stream.read(1 << 20):
                sha256.update(chunk)


def entries(out: Path) -> dict[str, str]:
    """Name -> digest of everything directly in OUT; temporary folders are not counted, nothing is no entry."""
    if not out.exists():
        return {}
    return {path.name: digest(path) for path in out.iterdir() if not is_staging_name(path.name)}


def leftovers(*places: Path) -> list[Path]:
    """The temporary folders directly in some folders."""
    return [
        path
        for place in places
        if place.is_dir()
        for path in place.iterdir()
        if path.name.startswith(".kpacktools-") and path.name.endswith(".tmp")
    ]
