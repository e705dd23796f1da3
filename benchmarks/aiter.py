"""AITER's code objects as two per-architecture builds: the input of workload W2."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path, PurePosixPath
from typing import Final

from inputs import PLUGINS, STAGE
from race import BenchmarkError

__all__ = ["Unavailable", "make_aiter"]

REQUIREMENT: Final = "amd-aiter==0.1.7.post2.dev18"


class Unavailable(BenchmarkError):
    """An input cannot be had here; the workload is left out."""


def make_aiter(given: Path | None, root: Path) -> None:
    """Fill ``root/shards/<target>`` with copies of the shards in ``given``, else out of the pinned wheel.

    The wheel comes from the cache of the tests on real inputs, else with pip.

    Raises :class:`Unavailable`.
    """
    if given is not None:
        if not given.is_dir():
            raise Unavailable(f"{given} is no folder")
        shutil.copytree(given, root / "shards")
        return
    chosen = os.environ.get("KPACKTOOLS_REAL_CACHE")
    cache = Path(chosen) if chosen else Path.home() / ".cache/kpacktools/real"
    cached = next((cache / REQUIREMENT).glob("*.whl"), None)
    if cached is not None:
        _unpack(cached, root)
        return
    with tempfile.TemporaryDirectory() as folder:
        _unpack(_download(Path(folder)), root)


def _download(folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    command += ["--python-version", "3.12", "--platform", "manylinux_2_28_x86_64", "--platform", "any"]
    result = subprocess.run(
        [*command, "--dest", str(folder), REQUIREMENT], capture_output=True, text=True, check=False
    )
    if result.returncode != 0:
        reason = (result.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise Unavailable(f"{REQUIREMENT} cannot be downloaded: {reason}")
    return next(folder.glob("*.whl"))


def _unpack(wheel: Path, root: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            parts = PurePosixPath(name).parts
            if name.endswith("/") or parts[:2] != ("aiter_meta", "hsa") or not parts[2].startswith("gfx"):
                continue
            artifact = root / "shards" / parts[2] / f"hipkernelprovider_lib_{parts[2]}"
            path = artifact.joinpath(STAGE, PLUGINS, "arch_content/aiter", *parts[2:])
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(archive.read(name))
            (artifact / "artifact_manifest.txt").write_text(f"{STAGE}\n", encoding="utf-8")
