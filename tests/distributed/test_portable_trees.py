"""Trees as workers get them: sent to another process, they open the same files."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

from builders import Build
from kpacktools.commands import MergeOptions, merge
from kpacktools.outputs.members import GeneratedFiles
from kpacktools.outputs.wheelset import WheelOptions
from kpacktools.pipeline import Settings
from kpacktools.rpath import _Copies
from kpacktools.tasks.model import Place
from kpacktools.tasks.portable import forget, portable
from kpacktools.trees import Tree
from kpacktools.trees.archive import open_archive
from kpacktools.trees.directory import scan_directory
from kpacktools.trees.spool import Spool
from kpacktools.trees.wheel import open_wheel
from kpacktools.wheelbuild import wheel

Maker = Callable[..., Build]


def sent(tree: Tree) -> tuple[Tree, tuple[Place, ...]]:
    """A tree after its way to a worker."""
    luggage = portable(tree)
    assert luggage is not None
    data = pickle.dumps(luggage)
    assert len(data) < 1000  # the way to the files, and not what is in them
    arrived = pickle.loads(data)
    return arrived.tree, arrived.needs


def everything(tree: Tree) -> dict[str, bytes]:
    files = {}
    for entries in tree.folders.values():
        for entry in entries:
            with tree.open(entry.path) as stream:
                files[entry.path] = stream.read()
    return files


@pytest.fixture
def built(build: Maker) -> Path:
    shard = build("gfx942").host()
    shard.rocke("gfx942")
    return shard.root


def test_a_directory(built: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    tree = scan_directory(os.path.relpath(built))
    arrived, needs = sent(tree)
    files = everything(tree)
    monkeypatch.chdir("/")  # a worker has a folder of its own
    assert everything(arrived) == files
    assert arrived.label == tree.label
    assert all(os.path.isabs(arrived.local_path(path) or "") for path in files)
    assert needs == (Place(str(built), int(built.stat().st_mtime)),)


def test_an_archive(built: Path, tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    merge([str(built)], str(tmp_path / "out"), settings, MergeOptions(archive="zst"))
    monkeypatch.chdir(tmp_path / "out")
    tree = open_archive("hipkernelprovider_lib_gfx942.tar.zst", Spool()).tree
    arrived, (place,) = sent(tree)
    monkeypatch.chdir("/")
    assert everything(arrived) == everything_at(tree, tmp_path / "out", monkeypatch)
    assert (arrived.label, arrived.local_path("x")) == (tree.label, None)
    assert place.is_here()
    forget()


def everything_at(tree: Tree, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    monkeypatch.chdir(folder)
    return everything(tree)


def test_a_wheel(built: Path, tmp_path: Path, settings: Settings) -> None:
    wheel([str(built)], str(tmp_path / "dist"), settings, WheelOptions(version="1.0"))
    (path,) = (tmp_path / "dist").glob("*.whl")
    tree = open_wheel(str(path), Spool()).tree
    arrived, _ = sent(tree)
    assert everything(arrived) == everything(tree)
    forget()


def test_generated_files_are_taken_along() -> None:
    luggage = portable(GeneratedFiles([("a.txt", b"text")]))
    assert luggage is not None
    with pickle.loads(pickle.dumps(luggage)).tree.open("a.txt") as stream:
        assert stream.read() == b"text"
    assert luggage.needs == ()


def test_what_lies_in_a_temporary_folder_stays_here(built: Path) -> None:
    assert portable(_Copies(scan_directory(str(built)), {})) is None


def test_an_error_names_the_path_that_the_user_wrote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x_lib_gfx942.tar.zst").write_bytes(b"")
    tree = open_archive("x_lib_gfx942.tar.zst", Spool()).tree
    arrived, _ = sent(tree)
    with pytest.raises(FileNotFoundError, match="No such file"):
        arrived.open("gone")
    assert arrived.label == "x_lib_gfx942.tar.zst"
    forget()


def test_a_place_is_told_apart_from_another_of_its_name(tmp_path: Path) -> None:
    place = Place.of(str(tmp_path))
    assert place.is_here()
    os.utime(tmp_path, (1, 1))
    assert not place.is_here()
    assert not Place(str(tmp_path / "gone")).is_here()
