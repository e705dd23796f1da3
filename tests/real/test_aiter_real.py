"""AITER's code objects through the command line: two builds merged, packed, installed and removed again.

2,594 files as AMD ships them, 2,501 of them code objects; see :func:`real_wheels.aiter_shards`.
"""

from __future__ import annotations

import csv
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from installer import install
from installer.destinations import SchemeDictionaryDestination
from installer.sources import WheelFile
from real_wheels import STAGE, aiter_shards

pytestmark = pytest.mark.real

TARGETS = ("gfx942", "gfx950")
ORDERS = [TARGETS, TARGETS[::-1]]
FILES = 2594
CODE_OBJECTS = 2501
MANIFEST = "artifact_manifest.txt"
OVERLAY = "_rocm_sdk_libraries"


def run(*arguments: str | Path, umask: int = -1) -> tuple[int, dict[str, Any]]:
    """Run kpacktools in a process of its own: exit status and report."""
    command = [sys.executable, "-m", "kpacktools", *map(str, arguments), "--format", "json"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, umask=umask)
    assert result.returncode in (0, 1), result.stderr
    return result.returncode, json.loads(result.stdout)


def call(*arguments: str | Path) -> None:
    """Run a tool that has to succeed."""
    result = subprocess.run([*map(str, arguments)], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def merge(shards: Path, out: Path, link: str = "hardlink", order: Iterable[str] = TARGETS) -> dict[str, Any]:
    status, report = run("merge", *(shards / target for target in order), "-o", out, "--link", link)
    assert status == 0
    return report


def digests(root: Path) -> dict[str, str]:
    """Relative path -> sha256 of every file below a folder."""
    return {
        path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in root.rglob("*")
        if path.is_file()
    }


def content(root: Path) -> dict[str, str]:
    """:func:`digests` without the containers' own manifests."""
    return {path: digest for path, digest in digests(root).items() if Path(path).name != MANIFEST}


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return aiter_shards(tmp_path_factory.mktemp("shards"))


@pytest.fixture(scope="module")
def inputs(shards: Path) -> dict[str, str]:
    """Path in its artifact directory -> sha256 of every content file of both shards."""
    return {path: digest for target in TARGETS for path, digest in content(shards / target).items()}


@pytest.fixture(scope="module")
def merged(shards: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("merged") / "out"
    merge(shards, out)
    return out


@pytest.fixture(scope="module")
def wheels(merged: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Target -> its device wheel."""
    dist = tmp_path_factory.mktemp("wheels") / "dist"
    status, report = run("wheel", merged, "-o", dist, "--version", "7.15.0")
    assert status == 0
    assert len(list(dist.iterdir())) == len(report["outputs"]) == 2
    return {output["key"]: Path(output["path"]) for output in report["outputs"]}


@pytest.fixture(scope="module")
def payload(inputs: dict[str, str]) -> dict[str, dict[str, str]]:
    """Target -> path below site-packages -> sha256 of what its wheel has to install."""
    return {
        target: {
            f"{OVERLAY}/{path.removeprefix(prefix)}": digest
            for path, digest in inputs.items()
            if path.startswith(prefix)
        }
        for target in TARGETS
        for prefix in (f"hipkernelprovider_lib_{target}/{STAGE}/",)
    }


@pytest.mark.parametrize("link", ["hardlink", "auto"])
def test_merge_keeps_every_file_once_and_unchanged(
    link: str, shards: Path, inputs: dict[str, str], tmp_path: Path
) -> None:
    report = merge(shards, tmp_path / "out", link)
    assert report["findings"] == []
    assert (report["counts"]["files_in"], report["counts"]["files_out"]) == (FILES, FILES)
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        f"hipkernelprovider_lib_{key}" for key in ("generic", *TARGETS)
    }
    assert len(inputs) == FILES
    assert content(tmp_path / "out") == inputs


def test_the_order_of_shards_changes_nothing(shards: Path, tmp_path: Path) -> None:
    reports = []
    for order in ORDERS:
        out = tmp_path / "-".join(order)
        report = merge(shards, out, order=order)
        reports.append(json.dumps(report).replace(str(out), "OUT"))
    assert reports[0] == reports[1]
    assert digests(tmp_path / "gfx942-gfx950") == digests(tmp_path / "gfx950-gfx942")


def test_shards_without_target_folders_are_refused_file_by_file(tmp_path: Path) -> None:
    shards = aiter_shards(tmp_path / "in", flat=True)
    status, report = run("merge", *(shards / target for target in TARGETS), "-o", tmp_path / "out")
    assert status == 1
    assert Counter(found["name"] for found in report["findings"]) == {
        "content-conflict": 1095,
        "device-code-in-generic": CODE_OBJECTS,
    }
    assert not (tmp_path / "out").exists()


def test_inspect_reads_every_code_object_and_finds_nothing(shards: Path) -> None:
    status, report = run("inspect", shards, "--depth", "content")
    assert status == 0
    assert report["findings"] == []
    assert report["counts"]["kernels_checked"] == CODE_OBJECTS
    assert {bundle["key"]: bundle["kernels"] for bundle in report["bundles"]} == {
        "gfx942": 1281,
        "gfx950": 1220,
    }


def test_D8_copies_of_the_inputs_give_the_same_wheels(shards: Path, tmp_path: Path) -> None:
    built = {}
    for umask, backwards in ((0o002, True), (0o022, False)):
        place = tmp_path / f"{umask:03o}"
        copy(shards, place / "in", umask=umask, backwards=backwards)
        sources = [place / "in" / target for target in (TARGETS[::-1] if backwards else TARGETS)]
        run("merge", *sources, "-o", place / "merged", umask=umask)
        run("wheel", place / "merged", "-o", place / "dist", "--version", "7.15.0", umask=umask)
        built[umask] = digests(place / "dist")
    assert len(built[0o002]) == 2
    assert built[0o002] == built[0o022]


def copy(source: Path, destination: Path, *, umask: int, backwards: bool) -> None:
    """Copy names and bytes only; modes come from ``umask``, times and the order of names are another's."""
    files = sorted((path for path in source.rglob("*") if path.is_file()), reverse=backwards)
    previous = os.umask(umask)
    try:
        for number, path in enumerate(files):
            copied = destination / path.relative_to(source)
            copied.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copied)
            os.utime(copied, (1_000_000_000 + number * 7, 1_200_000_000 + number * (umask + 1)))
    finally:
        os.umask(previous)


def test_the_wheels_share_no_path(wheels: dict[str, Path]) -> None:
    first, second = (set(zipfile.ZipFile(path).namelist()) for path in wheels.values())
    assert first
    assert first.isdisjoint(second)


@pytest.mark.parametrize("target", TARGETS)
def test_wheel_unpack_accepts_every_wheel(
    target: str, wheels: dict[str, Path], payload: dict[str, dict[str, str]], tmp_path: Path
) -> None:
    call(sys.executable, "-m", "wheel", "unpack", wheels[target], "--dest", tmp_path)
    (unpacked,) = tmp_path.iterdir()
    assert payload_of(unpacked) == payload[target]


def test_installer_puts_both_wheels_into_one_folder(
    wheels: dict[str, Path], payload: dict[str, dict[str, str]], tmp_path: Path
) -> None:
    for path in wheels.values():
        destination = SchemeDictionaryDestination(
            {"purelib": str(tmp_path), "platlib": str(tmp_path)}, sys.executable, "posix"
        )
        with WheelFile.open(path) as source:
            source.validate_record()
            install(source, destination, additional_metadata={})
    assert payload_of(tmp_path) == payload["gfx942"] | payload["gfx950"]


Tool = Callable[..., None]
"""``tool(environment, "install", wheel, ...)`` or ``tool(environment, "uninstall", distribution)``."""


def pip(environment: Path, action: str, *what: str | Path) -> None:
    options = {"install": ["--no-deps", "--no-index"], "uninstall": ["--yes"]}[action]
    call(*module("pip"), "--python", python_of(environment), action, "--quiet", *options, *what)


def uv(environment: Path, action: str, *what: str | Path) -> None:
    options = {"install": ["--no-deps", "--no-index"], "uninstall": []}[action]
    call(*module("uv"), "pip", action, "--no-cache", "--python", python_of(environment), *options, *what)


def module(name: str) -> tuple[str, str, str]:
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed")
    return sys.executable, "-m", name


def python_of(environment: Path) -> Path:
    return environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


@pytest.mark.parametrize("order", ORDERS, ids="-".join)
@pytest.mark.parametrize("tool", [pip, uv])
def test_wheels_are_installed_side_by_side_and_removed_without_a_trace(
    tool: Tool,
    order: tuple[str, str],
    wheels: dict[str, Path],
    payload: dict[str, dict[str, str]],
    tmp_path: Path,
) -> None:
    venv.create(tmp_path)
    base = {"base": str(tmp_path), "platbase": str(tmp_path)}
    site = Path(sysconfig.get_path("platlib", "venv", base))
    before = digests(site)
    first, second = order

    tool(tmp_path, "install", *wheels.values())
    assert payload_of(site) == payload["gfx942"] | payload["gfx950"]
    installed, own = digests(site), recorded(site, first)

    tool(tmp_path, "uninstall", f"rocm-sdk-device-{first}")
    assert digests(site) == {path: digest for path, digest in installed.items() if path not in own}
    assert payload_of(site) == payload[second]

    tool(tmp_path, "uninstall", f"rocm-sdk-device-{second}")
    assert digests(site) == before


def recorded(site: Path, target: str) -> set[str]:
    """The paths that the installed wheel of a target calls its own."""
    with (site / f"rocm_sdk_device_{target}-7.15.0.dist-info" / "RECORD").open(newline="") as rows:
        return {row[0] for row in csv.reader(rows)}


def payload_of(site: Path) -> Mapping[str, str]:
    """What is below the overlay, without generated link manifests and what pip compiles (some of it is Python)."""
    return {
        path: digest
        for path, digest in digests(site).items()
        if path.startswith(f"{OVERLAY}/")
        and not path.startswith(f"{OVERLAY}/.devel_links/")
        and not path.endswith(".pyc")
    }
