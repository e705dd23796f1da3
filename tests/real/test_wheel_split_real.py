"""The real amd-aiter wheel, split in three, and put together again by the tools that users have."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from real_wheels import fetch

from kpacktools.cli import run

pytestmark = pytest.mark.real
REQUIREMENT = "amd-aiter==0.1.7.post2.dev18"


@pytest.fixture(scope="module")
def source() -> Path:
    return fetch(REQUIREMENT)


@pytest.fixture(scope="module")
def dist(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("split") / "dist"
    assert run(["wheel", str(source), "-o", str(folder), "-q"]) == 0
    return folder


def _digests(path: Path) -> dict[str, str]:
    with zipfile.ZipFile(path) as archive:
        return {
            name: hashlib.sha256(archive.read(name)).hexdigest()
            for name in archive.namelist()
            if ".dist-info/" not in name and not name.endswith("/")
        }


def _installed(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file() and ".dist-info" not in str(path) and "__pycache__" not in str(path)
    }


def test_three_wheels_hold_the_original_and_share_no_path(source: Path, dist: Path) -> None:
    parts = [_digests(path) for path in sorted(dist.iterdir())]
    assert len(parts) == 3
    assert sum(map(len, parts)) == len(set().union(*parts))
    assert {name: digest for part in parts for name, digest in part.items()} == _digests(source)


def test_host_and_one_device_install_side_by_side_and_leave_cleanly(
    source: Path, dist: Path, tmp_path: Path
) -> None:
    environment = tmp_path / "env"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    python = environment / "bin/python"
    pip = [python, "-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input"]
    host, device, _ = sorted(dist.iterdir())
    assert "device_gfx942" in device.name
    (site,) = (environment / "lib").glob("python*/site-packages")
    before = _installed(site)
    subprocess.run([*pip, "install", "--no-deps", "--no-index", "--no-compile", host, device], check=True)
    held = {
        n: d for part in (_digests(host), _digests(device)) for n, d in part.items() if "__pycache__" not in n
    }
    original = _digests(source)
    assert held == {name: original[name] for name in held}
    assert {n: d for n, d in _installed(site).items() if n not in before} == held
    subprocess.run([*pip, "uninstall", "--yes", "amd-aiter-device-gfx942"], check=True)
    left = {n: d for n, d in _installed(site).items() if n not in before}
    assert left == {n: d for n, d in _digests(host).items() if "__pycache__" not in n}


def test_the_tools_of_the_field_accept_each_wheel(dist: Path, tmp_path: Path) -> None:
    wheels = [str(path) for path in sorted(dist.iterdir())]
    for wheel in wheels:
        subprocess.run(
            [sys.executable, "-m", "wheel", "unpack", "-d", tmp_path, wheel], check=True, capture_output=True
        )
    pytest.importorskip("twine")
    result = subprocess.run(
        [sys.executable, "-m", "twine", "check", *wheels], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout
    pytest.importorskip("check_wheel_contents")
    # W001: the original ships .pyc files; W002: duplicate files; W009: several top-level packages: its own opinions.
    command = [sys.executable, "-m", "check_wheel_contents", "--ignore", "W001,W002,W004,W009,W010", *wheels]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout[-500:]


def test_one_device_is_kept_under_the_old_name(source: Path, tmp_path: Path) -> None:
    assert run(["wheel", str(source), "-o", str(tmp_path / "dist"), "--only", "gfx942", "-q"]) == 0
    (path,) = (tmp_path / "dist").iterdir()
    assert path.name == source.name
    kept = _digests(path)
    original = _digests(source)
    assert kept.items() <= original.items()
    gone = set(original) - set(kept)
    assert len(gone) == 1380
    assert all("/gfx950/" in name or name.endswith(".hsaco") for name in gone)
