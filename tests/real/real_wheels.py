"""Real AMD content out of pinned public wheels, downloaded once with pip into a cache outside the repository.

Nothing of it may be committed. A test that uses it is skipped, with the reason, where it cannot be had.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath

import pytest

AITER = "amd-aiter==0.1.7.post2.dev18"
STAGE = "ml-libs/hipkernelprovider/stage"
ARCH_CONTENT = f"{STAGE}/lib/hipdnn_plugins/engines/arch_content"


def cache() -> Path:
    """``KPACKTOOLS_REAL_CACHE``, else a folder in the user's cache."""
    chosen = os.environ.get("KPACKTOOLS_REAL_CACHE")
    return Path(chosen) if chosen else Path.home() / ".cache" / "kpacktools" / "real"


def fetch(requirement: str) -> Path:
    """The one wheel of a pinned requirement (``name==version``), from the cache or by pip; else a skip."""
    found = _fetched(requirement)
    if isinstance(found, _Unavailable):
        pytest.skip(str(found))
    return found


def once(name: str, fill: Callable[[Path], None]) -> Path:
    """The cache's folder of this name; ``fill`` fills it where it is not there yet.

    It appears by a rename, filled: what another run or a killed one left half-way is never taken for it.
    """
    folder = cache() / name
    if not folder.is_dir():
        cache().mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache()) as temporary:
            filled = Path(temporary) / "filled"
            filled.mkdir()
            fill(filled)
            try:
                filled.rename(folder)
            except OSError:
                if not folder.is_dir():  # else another run was first
                    raise
    return folder


def aiter_shards(into: Path, *, flat: bool = False) -> Path:
    """Lay out AITER's code objects as two per-architecture builds, gfx942 and gfx950, below ``into``.

    ``<into>/<t>/hipkernelprovider_lib_<t>/`` with ``arch_content/aiter/<t>/**``, or with ``flat`` what a
    producer leaves that forgot the target's folder: ``arch_content/aiter/**``.
    """
    with zipfile.ZipFile(fetch(AITER)) as wheel:
        for name in wheel.namelist():
            parts = PurePosixPath(name).parts
            if name.endswith("/") or len(parts) < 4 or parts[:2] != ("aiter_meta", "hsa"):
                continue
            target = parts[2]
            if not target.startswith("gfx"):
                continue
            artifact = into / target / f"hipkernelprovider_lib_{target}"
            path = artifact.joinpath(ARCH_CONTENT, "aiter", *parts[3 if flat else 2 :])
            path.parent.mkdir(parents=True, exist_ok=True)
            with wheel.open(name) as source, path.open("wb") as destination:
                shutil.copyfileobj(source, destination)
            (artifact / "artifact_manifest.txt").write_bytes(f"{STAGE}\n".encode())
    return into


class _Unavailable(Exception):
    """Why a wheel cannot be had."""


@functools.cache
def _fetched(requirement: str) -> Path | _Unavailable:
    # The refusal is cached too: without a network, every attempt takes its time.
    try:
        return next(once(requirement, lambda folder: _download(requirement, folder)).glob("*.whl"))
    except _Unavailable as error:
        return error


def _download(requirement: str, folder: Path) -> None:
    if importlib.util.find_spec("pip") is None:
        raise _Unavailable("this interpreter has no pip to download real inputs with")
    # Whatever runs the tests, the wheel is the one for Linux.
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    command += ["--retries", "1", "--python-version", "3.12"]
    for platform in ("manylinux_2_27_x86_64", "manylinux_2_28_x86_64", "any"):
        command += ["--platform", platform]
    result = subprocess.run(
        [*command, "--dest", str(folder), requirement], capture_output=True, text=True, check=False
    )
    if result.returncode != 0:
        reason = (result.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise _Unavailable(f"{requirement} cannot be downloaded here: {reason}")
