"""Trees over stores alone: hostile names, wheels that contradict themselves, and files that several readers want."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest
from servers import S3Server, WebServer

from kpacktools.errors import CallError
from kpacktools.remote.objects import Object
from kpacktools.remote.store import open_store
from kpacktools.remote.tree import tree_of
from kpacktools.trees.access import Access
from kpacktools.trees.places import beside, identity, place_of, shown
from kpacktools.trees.spool import Spool
from kpacktools.trees.wheel import OpenedWheel, open_wheel

WHEEL = "x-1-py3-none-any.whl"


@pytest.mark.parametrize("name", ["../a", "a/../b", "a//b", "/a", "./a", "a/", ".."])
def test_names_that_lead_nowhere_in_a_tree_are_refused(tmp_path: Path, name: str) -> None:
    store, _ = open_store(f"file://{tmp_path}")
    with pytest.raises(CallError, match="no plain path"):
        tree_of("s3://b/a", store, [(name, Object("b/a/x", 1))])


def test_folders_come_before_what_they_hold(tmp_path: Path) -> None:
    store, _ = open_store(f"file://{tmp_path}")
    names = ["b/c/d", "b-/x", "b/a", "a"]
    tree = tree_of("s3://b/a", store, [(name, Object(name, 1)) for name in names])
    assert list(tree.folders) == ["", "b", "b/c", "b-"]
    assert [entry.path for entry in tree.folders["b"]] == ["b/a"]
    with pytest.raises(FileNotFoundError):
        tree.open("b/c")


def test_a_file_is_fetched_once_for_all_who_hold_it(s3: S3Server) -> None:
    data = os.urandom(3_000_000)
    s3.client().put_object(Bucket=s3.bucket, Key="r/x", Body=data)
    places, path = place_of(f"{s3.url}/r")
    tree = places.tree(path)
    held = tree.hold("x")  # type: ignore[attr-defined]
    for _ in range(3):
        with tree.open_whole("x") as stream:  # type: ignore[attr-defined]
            stream.seek(1_000_000)
            assert stream.read() == data[1_000_000:]
    assert len(s3.reads()) == 1
    del held, stream
    with tree.open("x") as stream:
        assert stream.read(16) == data[:16]
    assert len(s3.reads()) == 2


def at(url: str, *, whole: bool) -> OpenedWheel:
    places, path = place_of(url, Access(whole=whole))
    return open_wheel(path, Spool(), places.source(path, partial=True))


def make_wheel(path: Path) -> bytes:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("x/a.kpack", b"a" * 300)
        file.writestr("x/b", b"b" * 300, zipfile.ZIP_DEFLATED)
    return path.read_bytes()


@pytest.mark.parametrize("whole", [True, False])
def test_members_of_a_distant_wheel_are_read(web: WebServer, whole: bool) -> None:
    make_wheel(web.root / WHEEL)
    opened = at(f"{web.url}/{WHEEL}", whole=whole)
    assert not opened.findings
    with opened.tree.open("x/a.kpack") as one, opened.tree.open("x/b") as two:
        assert (one.read(), two.read()) == (b"a" * 300, b"b" * 300)


def test_a_header_that_contradicts_the_directory_is_met_when_it_is_read(web: WebServer) -> None:
    data = make_wheel(web.root / WHEEL)
    (web.root / WHEEL).write_bytes(data.replace(b"x/a.kpack", b"x/q.kpack", 1))
    whole = at(f"{web.url}/{WHEEL}", whole=True)
    assert {item.name for item in whole.findings} == {"archive-invalid"}
    partial = at(f"{web.url}/{WHEEL}", whole=False)
    assert not partial.findings
    with pytest.raises(OSError, match="contradict"):
        partial.tree.open("x/a.kpack")
    with partial.tree.open("x/b") as stream:
        assert stream.read() == b"b" * 300


def test_members_that_overlap_are_refused_by_the_directory_alone(web: WebServer) -> None:
    data = bytearray(make_wheel(web.root / WHEEL))
    second = data.index(b"PK\1\2", data.index(b"PK\1\2") + 4)
    data[second + 42 : second + 46] = (10).to_bytes(4, "little")
    (web.root / WHEEL).write_bytes(data)
    (item,) = at(f"{web.url}/{WHEEL}", whole=False).findings
    assert "overlap" in item.message


def test_a_wheel_that_changed_is_not_read(web: WebServer) -> None:
    with zipfile.ZipFile(web.root / WHEEL, "w") as file:
        file.writestr("x/large", bytes(400_000))
    tree = at(f"{web.url}/{WHEEL}", whole=False).tree
    (web.root / WHEEL).write_bytes(b"other" * 500)
    with pytest.raises(CallError, match="changed"), tree.open("x/large") as stream:
        stream.read()


def test_paths_and_urls_are_told_apart() -> None:
    assert identity("s3://b/a/") == identity("S3://b/a")
    assert identity("https://h/a%2bb") == identity("https://h/a+b")
    assert identity("https://h/a?v=1") != identity("https://h/a?v=2")
    assert identity("file:///x/../y") == os.path.realpath("/y")
    assert shown("C:\\a?b") == "C:\\a?b"
    assert beside("s3://b/r/shards.toml", "../x/y") == "s3://b/x/y"
    assert beside("https://h/r/shards.toml?t=1", "x y") == "https://h/r/x%20y?t=1"
    assert beside("r/shards.toml", "s3://b/x") == "s3://b/x"
    assert beside("r/shards.toml", "x") == os.path.join("r", "x")
