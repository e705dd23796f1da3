"""Who owns which file once wheels are installed: real environments, and an index that is made here.

After each step an environment must hold exactly the files of the wheels that are installed in it, byte for byte.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path

import pytest

from builders import Build, code_object
from kpacktools.outputs.wheelset import WheelOptions
from kpacktools.pipeline import Settings
from kpacktools.wheelbuild import WheelRun, wheel

HOST, GFX942, GFX1201, META = (
    "rocm-sdk-libraries",
    "rocm-sdk-device-gfx942",
    "rocm-sdk-device-gfx1201",
    "rocm-sdk-devices",
)
SET = (HOST, GFX942, GFX1201)
_BY_INSTALLERS = ("INSTALLER", "REQUESTED", "direct_url.json", "RECORD", "uv_cache.json")


def _shard(root: Path, release: str) -> Path:
    """From release 1.0 to 1.1 some content changes, a file comes and a file goes, for host and devices."""
    made = Build(root / release, "generic").host(f"host {release}\n")
    made.put(f"only-in-{release}.txt", release)
    for target in ("gfx942", "gfx1201"):
        made.rocke(target, names=["k0", "k1"] if release == "1.0" else ["k0", "k2"])
        made.put(f"arch_content/aiter/{target}/same.co", code_object(target, b"same"))
        made.put(f"arch_content/aiter/{target}/changed.co", code_object(target, release.encode()))
        made.put(f"arch_content/aiter/{target}/only-in-{release}.co", code_object(target))
    if release == "1.1":
        made.kernel_provider("gfx942")
    return made.root


def _release(root: Path, release: str, selected: WheelRun) -> list[Path]:
    options = WheelOptions(release, host=HOST)
    report = wheel([str(_shard(root / "in", release))], str(root / "dist"), Settings(), options, selected)
    assert report.ok, report.findings
    return [Path(output.path) for output in report.outputs]


def _index(root: Path, wheels: Iterable[Path]) -> str:
    """A package index (PEP 503) of files, as a URL."""
    pages: dict[str, list[str]] = {}
    for path in wheels:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        name = path.name.partition("-")[0].replace("_", "-")
        pages.setdefault(name, []).append(f'<a href="{path.as_uri()}#sha256={digest}">{path.name}</a>')
    for name, links in pages.items():
        (root / "simple" / name).mkdir(parents=True)
        (root / "simple" / name / "index.html").write_text(f"<!DOCTYPE html><body>{''.join(links)}</body>")
    return (root / "simple").as_uri()


@dataclass(frozen=True)
class Releases:
    """Releases 1.0 and 1.1 of one set, in an index."""

    index: str
    payloads: Mapping[tuple[str, str], Mapping[str, bytes]]
    """(Distribution, version) -> what its wheel holds, without what is its own in ``.dist-info``."""

    def files(self, installed: Mapping[str, str]) -> dict[str, bytes]:
        """What an environment with these versions of distributions must hold."""
        return {path: data for item in installed.items() for path, data in self.payloads[item].items()}

    def owners(self, version: str) -> dict[str, str]:
        return {
            path: name
            for (name, of), files in self.payloads.items()
            if of == version
            for path in files
            if ".dist-info/" not in path
        }


def _payload(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {n: archive.read(n) for n in archive.namelist() if not n.endswith(_BY_INSTALLERS)}


def _releases(root: Path, selected: WheelRun) -> Releases:
    wheels = {
        (path.name.split("-")[0].replace("_", "-"), release): path
        for release in ("1.0", "1.1")
        for path in _release(root, release, selected)
    }
    return Releases(_index(root, wheels.values()), {item: _payload(path) for item, path in wheels.items()})


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> Releases:
    return _releases(tmp_path_factory.mktemp("set"), WheelRun(meta=META))


@pytest.fixture(scope="module")
def in_parts(tmp_path_factory: pytest.TempPathFactory) -> Releases:
    return _releases(tmp_path_factory.mktemp("parts"), WheelRun(by_engine=True))


class Environment:
    """An environment without packages, and a tool to fill it."""

    def __init__(self, root: Path, tool: str) -> None:
        venv.create(root, symlinks=os.name != "nt")
        self._python = root / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
        (self.site,) = [path for path in root.rglob("site-packages") if path.is_dir()]
        self._tool = tool

    def install(self, index: str, *words: str) -> None:
        if self._tool == "pip":
            self._run("--python", self._python, "install", "--no-compile", "--index-url", index, *words)
        else:
            self._run("pip", "install", "--python", self._python, "--default-index", index, *words)

    def uninstall(self, *names: str) -> None:
        if self._tool == "pip":
            self._run("--python", self._python, "uninstall", "--yes", *names)
        else:
            self._run("pip", "uninstall", "--python", self._python, *names)

    def files(self) -> dict[str, bytes]:
        """Everything but what installers write of their own."""
        return {
            path.relative_to(self.site).as_posix(): path.read_bytes()
            for path in self.site.rglob("*")
            if path.is_file() and path.name not in _BY_INSTALLERS
        }

    def is_empty(self) -> bool:
        """True where no file is left; pip leaves empty folders behind where the last wheel had none in them."""
        return not any(path.is_file() for path in self.site.rglob("*"))

    def _run(self, *words: object) -> None:
        quiet = ["--quiet", "--no-cache-dir"] if self._tool == "pip" else ["--quiet", "--no-config"]
        command = [sys.executable, "-I", "-m", self._tool, *quiet, *map(str, words)]
        # Neither a developer's configuration nor a network may matter.
        environ = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_"))}
        environ |= {
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "UV_CACHE_DIR": str(self.site.parent / "uv-cache"),
            "UV_LINK_MODE": "copy",
        }
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module", params=["pip", "uv"])
def shared_environment(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Environment:
    pytest.importorskip(request.param)
    return Environment(tmp_path_factory.mktemp(request.param) / "env", request.param)


@pytest.fixture
def environment(shared_environment: Environment) -> Environment:
    """One that is empty: each test leaves it so."""
    assert shared_environment.is_empty()
    return shared_environment


Order = tuple[str, ...]
ORDERS = {" ".join(name.rpartition("-")[2] for name in order): order for order in permutations(SET)}


@pytest.mark.parametrize("order", [ORDERS["libraries gfx942 gfx1201"], ORDERS["gfx1201 libraries gfx942"]])
def test_installing_upgrading_and_removing_one_leaves_the_files_of_the_others(
    releases: Releases, environment: Environment, order: Order
) -> None:
    installed: dict[str, str] = {}
    for version, names in (("1.0", order), ("1.1", order[::-1])):
        for name in names:
            environment.install(releases.index, "--no-deps", f"{name}=={version}")
            installed[name] = version
            assert environment.files() == releases.files(installed)
    for name in (*order[1:], order[0]):
        environment.uninstall(name)
        del installed[name]
        assert environment.files() == releases.files(installed)
    assert environment.is_empty()


def test_an_extra_brings_host_and_device_and_an_upgrade_takes_all_along(
    releases: Releases, environment: Environment
) -> None:
    environment.install(releases.index, f"{META}[device-gfx942]==1.0")
    assert environment.files() == releases.files(dict.fromkeys((HOST, GFX942, META), "1.0"))
    environment.install(releases.index, f"{META}[device-all]==1.0")
    assert environment.files() == releases.files(dict.fromkeys((*SET, META), "1.0"))
    environment.install(releases.index, "--upgrade", f"{META}[device-all]")
    assert environment.files() == releases.files(dict.fromkeys((*SET, META), "1.1"))
    environment.uninstall(META, HOST)
    assert environment.files() == releases.files({GFX942: "1.1", GFX1201: "1.1"})
    environment.uninstall(GFX942, GFX1201)
    assert environment.is_empty()


def test_an_upgrade_of_parts_finds_every_file_at_the_distribution_that_had_it(
    in_parts: Releases, environment: Environment
) -> None:
    before, after = in_parts.owners("1.0"), in_parts.owners("1.1")
    moved = {path for path in before.keys() & after.keys() if before[path] != after[path]}
    assert moved == set()
    environment.install(in_parts.index, f"{GFX942}==1.0")
    parts = {HOST, GFX942, f"{GFX942}-aiter", f"{GFX942}-rocke"}
    assert environment.files() == in_parts.files(dict.fromkeys(parts, "1.0"))
    environment.install(in_parts.index, "--upgrade", GFX942)
    parts.add(f"{GFX942}-hip-kernel-provider")
    assert environment.files() == in_parts.files(dict.fromkeys(parts, "1.1"))
    environment.uninstall(*sorted(parts))
    assert environment.is_empty()
