"""Peers: other programs that do a job of kpacktools', out of a package registry. All are optional.

bdist_wheel and ``wheel pack`` put all trees into one wheel, where kpacktools makes one for each device: that
spares them starts, so the comparison errs on their side.
"""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from race import Contender

__all__ = ["artifact_flatten", "bdist_wheel", "wheel_pack"]

_PACKAGE = "payload"
_VERSION = "1.0"
_SETUP = f"""\
from setuptools import setup
setup(
    name="{_PACKAGE}", version="{_VERSION}", packages=["{_PACKAGE}"], package_data={{"{_PACKAGE}": ["**"]}},
    include_package_data=False, options={{"bdist_wheel": {{"plat_name": "linux_x86_64"}}}},
)
"""
_OLDEST_SETUPTOOLS = (70, 1)
"""The first with a bdist_wheel of its own; before that it came with the package wheel, and went from there."""


def bdist_wheel(trees: Sequence[Path], place: Path) -> Contender:
    """setuptools' bdist_wheel of the trees as package data; ``place`` is a new folder for the project."""
    skipped = _missing("setuptools", _OLDEST_SETUPTOOLS)
    if not skipped:
        _link_trees(trees, place / _PACKAGE)
        (place / _PACKAGE / "__init__.py").touch()
        (place / "setup.py").write_text(_SETUP, encoding="utf-8")

    def command(folder: Path) -> Sequence[str | Path]:
        start = [sys.executable, "setup.py", "--quiet", "egg_info", f"--egg-base={folder}"]
        build = ["build", f"--build-base={folder / 'build'}"]
        return [
            *start,
            *build,
            "bdist_wheel",
            f"--bdist-dir={folder / 'bdist'}",
            f"--dist-dir={folder / 'dist'}",
        ]

    return Contender("setuptools bdist_wheel", "peer", command, skipped, place)


def wheel_pack(trees: Sequence[Path], place: Path) -> Contender:
    """``wheel pack`` of the trees; ``place`` is a new folder for the unpacked wheel."""
    skipped = _missing("wheel")
    unpacked = place / f"{_PACKAGE}-{_VERSION}"
    if not skipped:
        _link_trees(trees, unpacked / _PACKAGE)
        info = unpacked / f"{unpacked.name}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {_PACKAGE}\nVersion: {_VERSION}\n")
        (info / "WHEEL").write_text(
            "Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-linux_x86_64\n"
        )
        (info / "RECORD").touch()

    def command(folder: Path) -> Sequence[str | Path]:
        return [sys.executable, "-m", "wheel", "pack", unpacked, "--dest-dir", folder]

    return Contender("wheel pack", "peer", command, skipped)


def artifact_flatten(artifacts: Sequence[Path]) -> Contender:
    """TheRock's fileset tool, which lays artifact directories over one another with hard links, unchecked."""

    def command(folder: Path) -> Sequence[str | Path]:
        tool = [sys.executable, "-m", "therock_tools.fileset_tool", "artifact-flatten"]
        return [*tool, *artifacts, "-o", folder / "out"]

    return Contender("fileset_tool artifact-flatten", "peer", command, _missing("therock-tools"))


def _link_trees(trees: Sequence[Path], place: Path) -> None:
    for number, tree in enumerate(trees):
        shutil.copytree(tree, place / str(number), copy_function=os.link)


def _missing(distribution: str, oldest: tuple[int, ...] = ()) -> str:
    """Why a peer cannot take part; empty where it can."""
    try:
        version = importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return f"{distribution} is not installed"
    found = tuple(int(part) for part in version.split(".")[: len(oldest)])
    if found < oldest:
        return f"{distribution} {version} is older than {'.'.join(map(str, oldest))}"
    return ""
