"""AMD's own runtime as the referee of outputs: it reads the same kernels in them as in the inputs."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import pytest
from amd_runtime import list_kernels
from installer import install
from installer.destinations import SchemeDictionaryDestination
from installer.sources import WheelFile

from kpacktools.cli import run

pytestmark = pytest.mark.real

SHARDS = Path(__file__).parents[2] / "examples" / "shards"
SOURCES = [str(path) for path in sorted(SHARDS.iterdir())]

Kernels = list[tuple[str, str, int, str]]
"""Key, target, bytes and sha256 of every kernel of every archive, sorted."""


def archives(*roots: Path) -> list[Path]:
    return [path for root in roots for path in root.rglob("*.kpack")]


def kernels(*roots: Path) -> Kernels:
    """What AMD's runtime hands out of all archives below some folders."""
    return sorted(kernel for path in archives(*roots) for kernel in list_kernels(path))


def hashes(*roots: Path) -> list[str]:
    return sorted(hashlib.sha256(path.read_bytes()).hexdigest() for path in archives(*roots))


def kpacktools(*arguments: str | Path) -> None:
    assert run([*map(str, arguments), "--quiet"]) == 0


def assert_unchanged(*roots: Path) -> None:
    """The archives are the inputs' own, each once, and the runtime reads every kernel in them."""
    assert hashes(*roots) == hashes(SHARDS)
    assert kernels(*roots) == kernels(SHARDS) != []


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    """All shards in one install prefix."""
    out = tmp_path / "prefix"
    kpacktools("merge", *SOURCES, "-o", out, "--flatten")
    return out


@pytest.mark.parametrize("link", ["auto", "hardlink", "copy"])
def test_every_kernel_is_readable_after_merge(link: str, tmp_path: Path) -> None:
    kpacktools("merge", *SOURCES, "-o", tmp_path / "out", "--link", link)
    assert_unchanged(tmp_path / "out")


def test_every_kernel_is_readable_in_one_prefix(prefix: Path) -> None:
    assert_unchanged(prefix)


@pytest.mark.parametrize("link", ["auto", "hardlink"])
def test_every_kernel_is_readable_after_split(link: str, prefix: Path, tmp_path: Path) -> None:
    kpacktools("split", prefix, "-o", tmp_path / "out", "--link", link)
    parts = sorted((tmp_path / "out").glob("prefix_lib_gfx*"))
    assert len(parts) == len(SOURCES)
    assert_unchanged(*parts)


def test_every_kernel_is_readable_out_of_installed_wheels(tmp_path: Path) -> None:
    kpacktools("wheel", *SOURCES, "-o", tmp_path / "dist", "--version", "7.15.0")
    site = tmp_path / "site"
    for path in (tmp_path / "dist").iterdir():
        destination = SchemeDictionaryDestination(
            {"purelib": str(site), "platlib": str(site)}, sys.executable, "posix"
        )
        with WheelFile.open(path) as wheel:
            install(wheel, destination, additional_metadata={})
    assert_unchanged(site)
