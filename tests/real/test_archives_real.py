"""Archives of real content, and archives that TheRock's own tools read and write."""

from __future__ import annotations

import json
import os
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from real_wheels import aiter_shards

from builders import Build, contents
from kpacktools.cli import run
from kpacktools.trees.archive import open_archive
from kpacktools.trees.directory import scan_directory
from kpacktools.trees.spool import Spool

KEYS = ("generic", "gfx942", "gfx950")


def kpacktools(*arguments: str | Path) -> None:
    assert run([*map(str, arguments), "--quiet"]) == 0


def report(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> dict[str, Any]:
    """The JSON report of a command that succeeds."""
    capsys.readouterr()
    assert run([*map(str, arguments), "--format", "json"]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def links(root: Path) -> dict[str, str]:
    """Relative path -> target of every link below a folder."""
    return {str(path.relative_to(root)): os.readlink(path) for path in root.rglob("*") if path.is_symlink()}


@pytest.fixture(scope="module")
def aiter(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """AITER's code objects as two per-architecture builds."""
    return sorted(aiter_shards(tmp_path_factory.mktemp("aiter")).iterdir())


@pytest.fixture(scope="module")
def merged(aiter: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``folders``, and ``archives`` of the same content."""
    root = tmp_path_factory.mktemp("merged")
    kpacktools("merge", *aiter, "-o", root / "folders")
    kpacktools("merge", *aiter, "-o", root / "archives", "--archive", "zst")
    return root


@pytest.mark.real
def test_two_merges_give_identical_archives(merged: Path, aiter: list[Path], tmp_path: Path) -> None:
    kpacktools("merge", *reversed(aiter), "-o", tmp_path / "again", "--archive", "zst", "--jobs", "1")
    assert contents(tmp_path / "again") == contents(merged / "archives")
    assert len(contents(tmp_path / "again")) == 2 * len(KEYS)


@pytest.mark.real
def test_archives_are_inspected_like_folders(merged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    packed = report(capsys, "inspect", merged / "archives")
    plain = report(capsys, "inspect", merged / "folders")
    for found in (packed, plain):
        for bundle in found["bundles"]:
            del bundle["path"], bundle["shard"]
    assert packed["counts"] == plain["counts"]
    assert packed["counts"]["kernels_checked"] > 2000
    assert packed["bundles"] == plain["bundles"]
    assert packed["findings"] == plain["findings"] == []


@pytest.mark.real
def test_archives_are_merged_like_folders(merged: Path, tmp_path: Path) -> None:
    kpacktools("merge", merged / "archives", "-o", tmp_path / "again")
    assert contents(tmp_path / "again") == contents(merged / "folders")


@pytest.fixture
def set_of_shards(build: Callable[..., Build], tmp_path: Path) -> Path:
    """Two small builds with a link, an executable and a second name of a file; merged, as ``folders`` and
    ``archives``."""
    for key in ("gfx942", "gfx950"):
        shard = build(key).host()
        shard.rocke(key)
        (shard.engines / "liblink.so").symlink_to("libhost.so")
        os.link(shard.engines / "libhost.so", shard.engines / "libhost.so.1")
        shard.put("tool", "#!/bin/sh\n").chmod(0o755)
    sources = sorted((tmp_path / "in").iterdir())
    kpacktools("merge", *sources, "-o", tmp_path / "folders", "--link", "hardlink")
    kpacktools("merge", *sources, "-o", tmp_path / "archives", "--archive", "zst")
    return tmp_path


@pytest.fixture
def fileset_tool() -> Callable[..., None]:
    """TheRock's ``fileset_tool``, where it is installed."""
    pytest.importorskip("pyzstd")
    tool = pytest.importorskip("therock_tools.fileset_tool")

    def call(*arguments: str | Path) -> None:
        tool.main([*map(str, arguments)])

    return call


def test_therock_flattens_our_archives(
    set_of_shards: Path, tmp_path: Path, fileset_tool: Callable[..., None]
) -> None:
    archives = sorted((set_of_shards / "archives").glob("*.tar.zst"))
    fileset_tool("artifact-flatten", *archives, "-o", tmp_path / "theirs")
    kpacktools("merge", *sorted((tmp_path / "in").iterdir()), "-o", tmp_path / "ours", "--flatten")
    assert contents(tmp_path / "theirs") == contents(tmp_path / "ours")
    assert links(tmp_path / "theirs") == links(tmp_path / "ours") != {}
    (tool,) = (tmp_path / "theirs").rglob("tool")
    assert os.access(tool, os.X_OK)


@pytest.mark.skipif(not hasattr(tarfile, "data_filter"), reason="therock-tools asks for filters of tarfile")
def test_therock_extracts_our_archives_and_finds_the_artifacts(
    set_of_shards: Path, tmp_path: Path, fileset_tool: Callable[..., None]
) -> None:
    from therock_tools.archive_util import open_archive_for_read
    from therock_tools.artifacts import ArtifactCatalog, ArtifactName

    for path in (set_of_shards / "archives").glob("*.tar.zst"):
        name = ArtifactName.from_path(path)
        assert (name.name, name.component) == ("hipkernelprovider", "lib")
        with open_archive_for_read(path) as archive:
            archive.extractall(tmp_path / "theirs" / path.name.partition(".")[0], filter="tar")
    assert contents(tmp_path / "theirs") == contents(set_of_shards / "folders")
    assert links(tmp_path / "theirs") == links(set_of_shards / "folders")
    catalog = ArtifactCatalog(tmp_path / "theirs")
    assert sorted(name.target_family for name in catalog.artifact_names) == list(KEYS)


@pytest.mark.parametrize("form", ["zst", "xz"])
def test_archives_of_therock_are_read(
    set_of_shards: Path, tmp_path: Path, fileset_tool: Callable[..., None], form: str
) -> None:
    from therock_tools.archive_util import open_archive_for_read

    compression = {"zst": "zstd", "xz": "xz"}[form]
    for folder in (set_of_shards / "folders").iterdir():
        path = tmp_path / "theirs" / f"{folder.name}.tar.{form}"
        checksum = f"{path}.sha256sum"
        fileset_tool(
            "artifact-archive", folder, "-o", path, "--compression-type", compression, "--hash-file", checksum
        )
        with open_archive_for_read(path) as archive:
            assert any(item.islnk() for item in archive) == folder.name.endswith("generic")
        found = open_archive(str(path), Spool())
        assert found.findings == ()
        expected = scan_directory(str(folder), skip=frozenset({"artifact_manifest.txt"}))
        assert {k: list(v) for k, v in found.tree.folders.items()} == dict(expected.folders)
    kpacktools("merge", tmp_path / "theirs", "-o", tmp_path / "again")
    assert contents(tmp_path / "again") == contents(set_of_shards / "folders")
    assert links(tmp_path / "again") == links(set_of_shards / "folders")


def test_checksum_files_are_those_of_therock(
    set_of_shards: Path, tmp_path: Path, fileset_tool: Callable[..., None]
) -> None:
    from therock_tools.hash_util import calculate_hash, write_hash

    for path in (set_of_shards / "archives").glob("*.tar.zst"):
        write_hash(tmp_path / "theirs", calculate_hash(path, "sha256"))
        assert (tmp_path / "theirs").read_bytes() == Path(f"{path}.sha256sum").read_bytes()
