"""Plugins as their users meet them: installed with pip into a fresh environment."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from builders import Build, code_object

REPOSITORY = Path(__file__).resolve().parent.parent
Maker = Callable[..., Build]


class Environment:
    """A virtual environment that sees this one's packages, and whose own come first."""

    def __init__(self, folder: Path) -> None:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        scripts = "Scripts" if os.name == "nt" else "bin"
        self.python = folder / scripts / "python"
        (site,) = [Path(p) for p in (folder / "lib").glob("python*/site-packages")] or [
            folder / "Lib/site-packages"
        ]
        parents = [path for path in sys.path if path.endswith("site-packages")]
        # As statements, since plain paths are read in the locale's encoding, which may not have their letters.
        paths = [ascii(str(path)) for path in (*parents, REPOSITORY)]
        lines = [f"import sys; sys.path.append({path})\n" for path in paths]
        (site / "parent.pth").write_text("".join(lines), "ascii")
        self.site = site

    def install(self, package: Path) -> None:
        """Build a package with what is here already, and unpack its wheel."""
        wheels = self.site.parent / "wheels"
        command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", wheels, package]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stdout + result.stderr
        (wheel,) = wheels.glob(f"{package.name.replace('-', '_')}*.whl")
        import zipfile

        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(self.site)

    def run(self, *arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
        command = [str(self.python), "-m", "kpacktools", *map(str, arguments)]
        return subprocess.run(
            command, capture_output=True, text=True, check=False, env={**os.environ, **environment}
        )


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    pytest.importorskip("hatchling", reason="the build backend of the example plugin is not installed")
    return Environment(tmp_path / "env")


def _acme(shard: Build, folder: str, **changes: object) -> None:
    data = code_object(folder, b"acme")
    shard.put(f"arch_content/acme/{folder}/axpy.co", data)
    manifest = {
        "schema": "acme.bundle/v1",
        "target": folder,
        "build": "2026-11",
        "kernels": [{"file": "axpy.co", "sha256": hashlib.sha256(data).hexdigest()}],
    } | changes
    shard.put(f"arch_content/acme/{folder}/acme.json", json.dumps(manifest))


def test_the_example_plugin_merges_its_engines_content(
    environment: Environment, build: Maker, tmp_path: Path
) -> None:
    shards = [build(target) for target in ("gfx942", "gfx950")]
    for shard in shards:
        _acme(shard, shard.key)
    roots = [shard.root for shard in shards]
    before = environment.run("merge", *roots, "-o", tmp_path / "out", "--format", "json")
    assert before.returncode == 1
    assert {f["name"] for f in json.loads(before.stdout)["findings"]} == {"unclaimed-target-content"}
    environment.install(REPOSITORY / "examples/kpacktools-acme")
    listed = environment.run("handlers")
    assert "kpacktools-acme 1.0.0" in listed.stdout
    merged = environment.run(
        "merge", *roots, "-o", tmp_path / "out", "--format", "json", "--depth", "content"
    )
    report = json.loads(merged.stdout)
    assert (merged.returncode, report["findings"]) == (0, [])
    assert {(b["engine"], b["key"], b["kernels"], b["build_id"]) for b in report["bundles"]} == {
        ("acme", "gfx942", 1, "2026-11"),
        ("acme", "gfx950", 1, "2026-11"),
    }
    traced = environment.run("handlers", KPACKTOOLS_TRACE_PLUGINS="1")
    assert "kpacktools_handlers" in traced.stderr


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"target": "gfx950"}, "target-mismatch"),
        ({"kernels": [{"file": "other.co", "sha256": "0" * 64}]}, "missing-kernel"),
        ({"kernels": [{"file": "axpy.co", "sha256": "0" * 64}]}, "digest-mismatch"),
        ({"kernels": 3}, "manifest-invalid"),
    ],
)
def test_the_example_plugins_checks(
    build: Maker, changes: dict[str, object], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from importlib.metadata import EntryPoint

    from kpacktools import commands
    from kpacktools.plugins import load_registry

    monkeypatch.syspath_prepend(str(REPOSITORY / "examples/kpacktools-acme/src"))
    registry = load_registry([EntryPoint("acme", "kpacktools_acme", "kpacktools")])
    monkeypatch.setattr(commands, "load_registry", lambda: registry)
    shard = build("gfx942")
    _acme(shard, "gfx942", **changes)
    report = commands.inspect([str(shard.root)])
    assert [f.name for f in report.findings] == [expected]


def test_the_ten_minute_guide_works_as_written(
    environment: Environment, build: Maker, tmp_path: Path
) -> None:
    guide = (REPOSITORY / "docs/handlers.md").read_text("utf-8")
    package = tmp_path / "kpacktools-zed"
    package.mkdir()
    for name, text in re.findall(r"```\w+ file=(\S+)\n(.*?)```", guide, re.DOTALL):
        (package / name).write_text(text)
    environment.install(package)
    shard = build("gfx942")
    shard.put("arch_content/zed/gfx942/fast.co", code_object("gfx942"))
    manifest = shard.put("arch_content/zed/gfx942/zed.json", '{"target": "gfx942", "files": ["fast.co"]}')
    (commands,) = re.findall(r"```console run\n(.*?)```", guide, re.DOTALL)
    lines = [line.removeprefix("$ kpacktools ") for line in commands.splitlines() if "kpacktools " in line]
    for line in lines:
        result = environment.run(*[str(shard.root) if word == "shard" else word for word in line.split()])
        assert result.returncode == 0, result.stdout + result.stderr
        assert "zed" in result.stdout
    manifest.write_text('{"target": "gfx950", "files": ["slow.co"]}')
    report = json.loads(environment.run("inspect", shard.root, "--format", "json").stdout)
    assert {f["name"] for f in report["findings"]} == {"missing-kernel", "target-mismatch"}
    manifest.write_text("[]")
    report = json.loads(environment.run("inspect", shard.root, "--format", "json").stdout)
    assert {f["name"] for f in report["findings"]} == {"manifest-invalid"}
