"""``--cache DIR``: an unchanged release costs its listings, a changed byte is found, and no entry is trusted."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from servers import S3Server, WebServer
from test_inputs import report, same

from builders import ENGINES, STAGE, Build, code_object, host_elf
from kpacktools.cache import Cache
from kpacktools.checks import kernels as kernels_module
from kpacktools.cli import run

Made = Callable[..., Build]


@pytest.fixture
def release(build: Made) -> Path:
    """A shard with a bit of everything, and things that are wrong with it."""
    made = build("gfx942")
    made.host()
    made.rocke("gfx942")
    made.put("libother.so", host_elf({".data": b"x" * 200}))
    made.put("arch_content/aiter/gfx942/a.co", code_object("gfx942", b"x" * 99))
    made.put("arch_content/aiter/gfx942/wrong.co", code_object("gfx950", b"y" * 99))
    made.put("arch_content/aiter/gfx942/none.co", b"no code object")
    return made.root.parent


@pytest.fixture
def cache(tmp_path: Path) -> str:
    return str(tmp_path / "cache")


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The code objects that are parsed."""
    found: list[str] = []
    genuine = kernels_module._parse

    def parse(data: Any, digest: bytes, place: Any, *rest: Any) -> None:
        found.append(place.where)
        genuine(data, digest, place, *rest)

    monkeypatch.setattr(kernels_module, "_parse", parse)
    return found


def kpack_of(root: Path) -> Path:
    return next(root.rglob("*.kpack"))


@pytest.mark.parametrize("depth", ["layout", "toc", "content"])
def test_a_second_run_over_s3_reads_listings_only(
    release: Path, s3: S3Server, cache: str, capsys: pytest.CaptureFixture[str], depth: str
) -> None:
    url = s3.upload(release, "r")
    plain = report(capsys, "inspect", url, "--depth", depth, status=int(depth == "content"))
    options = ["--depth", depth, "--cache", cache]
    first = report(capsys, "inspect", url, *options, status=int(depth == "content"))
    s3.requests.clear()
    second = report(capsys, "inspect", url, *options, status=int(depth == "content"))
    assert plain == first == second
    assert s3.reads() == []
    assert s3.requests


@pytest.mark.parametrize("depth", ["layout", "toc", "content"])
def test_a_second_run_over_a_web_server_reads_no_file(
    release: Path, web: WebServer, cache: str, capsys: pytest.CaptureFixture[str], depth: str
) -> None:
    shutil.copytree(release, web.root / "r")
    options = ["inspect", f"{web.url}/r", "--depth", depth, "--cache", cache]
    first = report(capsys, *options, status=int(depth == "content"))
    web.forget()
    assert report(capsys, *options, status=int(depth == "content")) == first
    assert web.gets == []


@pytest.mark.parametrize("depth", ["layout", "toc", "content"])
def test_a_second_run_over_archives_reads_none(
    release: Path, s3: S3Server, tmp_path: Path, cache: str, capsys: pytest.CaptureFixture[str], depth: str
) -> None:
    out = tmp_path / "archives"
    assert run(["artifacts", "archive", str(release / "gfx942"), "-o", str(out)]) == 0
    url = s3.upload(out, "r")
    status = int(depth == "content")
    capsys.readouterr()
    plain = report(capsys, "inspect", url, "--depth", depth, status=status)
    options = ["inspect", url, "--depth", depth, "--cache", cache]
    assert report(capsys, *options, status=status) == plain
    s3.requests.clear()
    assert report(capsys, *options, status=status) == plain
    assert s3.reads() == []


@pytest.mark.parametrize("depth", ["layout", "toc", "content"])
def test_a_second_run_over_a_wheel_reads_nothing_of_it(
    release: Path, web: WebServer, cache: str, capsys: pytest.CaptureFixture[str], depth: str
) -> None:
    for name in ("wrong.co", "none.co"):
        (
            release
            / f"gfx942/hipkernelprovider_lib_gfx942/{STAGE}/{ENGINES}/arch_content/aiter/gfx942/{name}"
        ).unlink()
    assert run(["wheel", str(release / "gfx942"), "-o", str(web.root), "--version", "7.15.0"]) == 0
    (wheel,) = web.root.iterdir()
    capsys.readouterr()
    url = f"{web.url}/{wheel.name}"
    plain = report(capsys, "inspect", url, "--depth", depth)
    options = ["inspect", url, "--depth", depth, "--cache", cache]
    assert report(capsys, *options) == plain
    web.forget()
    assert report(capsys, *options) == plain
    assert web.gets == []


def test_diff_and_lock_are_the_same_with_a_cache(
    release: Path, s3: S3Server, tmp_path: Path, cache: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("wrong.co", "none.co"):
        (
            release
            / f"gfx942/hipkernelprovider_lib_gfx942/{STAGE}/{ENGINES}/arch_content/aiter/gfx942/{name}"
        ).unlink()
    url = s3.upload(release, "r")
    assert run(["lock", "write", url, "-o", str(tmp_path / "a.lock")]) == 0
    assert run(["lock", "write", url, "-o", str(tmp_path / "b.lock"), "--cache", cache]) == 0
    s3.requests.clear()
    assert run(["lock", "write", url, "-o", str(tmp_path / "c.lock"), "--cache", cache]) == 0
    assert run(["diff", url, str(release), "--fail-on", "any", "--cache", cache]) == 0
    assert s3.reads() == []
    assert len({(tmp_path / f"{name}.lock").read_bytes() for name in "abc"}) == 1


def test_local_kernels_are_read_once(
    release: Path, cache: str, capsys: pytest.CaptureFixture[str], reads: list[str], tmp_path: Path
) -> None:
    plain = report(capsys, "inspect", str(release), status=1)
    first = report(capsys, "inspect", str(release), "--cache", cache, status=1)
    assert len(reads) == 8
    assert report(capsys, "inspect", str(release), "--cache", cache, status=1) == first == plain
    assert len(reads) == 8
    # Wherever the same files lie.
    shutil.copytree(release, tmp_path / "elsewhere")
    moved = report(capsys, "inspect", str(tmp_path / "elsewhere"), "--cache", cache, status=1)
    assert len(reads) == 8
    assert {item["path"].replace(str(tmp_path / "elsewhere"), "@") for item in moved["findings"]} == {
        item["path"].replace(str(release), "@") for item in plain["findings"]
    }


@pytest.mark.parametrize("etags", [True, False])
def test_a_changed_byte_is_found(
    release: Path, web: WebServer, cache: str, capsys: pytest.CaptureFixture[str], etags: bool
) -> None:
    shutil.copytree(release, web.root / "r")
    web.etags = etags
    options = ["inspect", f"{web.url}/r", "--cache", cache]
    before = report(capsys, *options, status=1)
    kpack = kpack_of(web.root)
    status = kpack.stat()
    data = bytearray(kpack.read_bytes())
    data[64] ^= 1
    kpack.write_bytes(data)
    if not etags:
        os.utime(kpack, ns=(status.st_atime_ns, status.st_mtime_ns))
    found = report(capsys, *options, status=1)
    shutil.rmtree(cache)
    assert found == report(capsys, *options, status=1)
    assert len(found["findings"]) > len(before["findings"])


def test_a_changed_byte_of_a_local_file_is_found(
    release: Path, cache: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = report(capsys, "inspect", str(release), "--cache", cache, status=1)
    kpack = kpack_of(release)
    status = kpack.stat()
    data = bytearray(kpack.read_bytes())
    data[64] ^= 1
    kpack.write_bytes(data)
    os.utime(kpack, ns=(status.st_atime_ns, status.st_mtime_ns))
    found = report(capsys, "inspect", str(release), "--cache", cache, status=1)
    assert found == report(capsys, "inspect", str(release), status=1)
    assert len(found["findings"]) > len(before["findings"])


def test_a_changed_manifest_is_judged_anew(
    release: Path, cache: str, capsys: pytest.CaptureFixture[str]
) -> None:
    report(capsys, "inspect", str(release), "--cache", cache, status=1)
    manifest = next(release.rglob("rocke_client_gfx942.json"))
    manifest.write_text(manifest.read_text().replace('"symbol": "', '"symbol": "other_'))
    found = report(capsys, "inspect", str(release), "--cache", cache, status=1)
    assert found == report(capsys, "inspect", str(release), status=1)


@pytest.mark.parametrize(
    "harm",
    [
        lambda data: b"",
        lambda data: data[:-1],
        lambda data: data[:60] + bytes([data[60] ^ 1]) + data[61:],
        lambda data: os.urandom(len(data)),
        lambda data: data + b"\0",
    ],
)
def test_damaged_entries_count_as_absent(
    release: Path,
    s3: S3Server,
    cache: str,
    capsys: pytest.CaptureFixture[str],
    harm: Callable[[bytes], bytes],
) -> None:
    url = s3.upload(release, "r")
    first = report(capsys, "inspect", url, "--cache", cache, status=1)
    entries = [path for path in Path(cache).rglob("*") if path.is_file()]
    assert entries
    for entry in entries:
        entry.write_bytes(harm(entry.read_bytes()))
    assert report(capsys, "inspect", url, "--cache", cache, status=1) == first


def test_an_entry_under_another_name_counts_as_absent(
    release: Path, cache: str, capsys: pytest.CaptureFixture[str]
) -> None:
    first = report(capsys, "inspect", str(release), "--cache", cache, status=1)
    entries = sorted(path for path in Path(cache).rglob("*") if path.is_file())
    contents = [entry.read_bytes() for entry in entries]
    for entry, content in zip(entries, [*contents[1:], contents[0]], strict=True):
        entry.write_bytes(content)
    assert report(capsys, "inspect", str(release), "--cache", cache, status=1) == first


def test_a_folder_that_cannot_be_written_is_a_call_error(
    release: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_bytes(b"")
    assert run(["inspect", str(release), "--cache", str(tmp_path / "file")]) == 2
    assert "--cache" in capsys.readouterr().err


def test_what_cannot_be_kept_is_done_without(
    release: Path, cache: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = report(capsys, "inspect", str(release), status=1)

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("kpacktools.cache.os.replace", full)
    assert report(capsys, "inspect", str(release), "--cache", cache, status=1) == plain
    assert not [path for path in Path(cache).rglob("*") if path.is_file()]


def test_entries_of_two_kinds_do_not_mix(tmp_path: Path) -> None:
    cache = Cache(str(tmp_path))
    cache.put("a", "x", "y", data=b"1")
    assert cache.get("a", "x", "y") == b"1"
    assert cache.get("a", "xy") is None
    assert cache.get("a", "x\0y") is None
    assert cache.get("b", "x", "y") is None


def test_merging_urls_reads_digests_from_the_cache(
    release: Path, s3: S3Server, tmp_path: Path, cache: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("wrong.co", "none.co"):
        (
            release
            / f"gfx942/hipkernelprovider_lib_gfx942/{STAGE}/{ENGINES}/arch_content/aiter/gfx942/{name}"
        ).unlink()
    shutil.copytree(release / "gfx942", release / "again")
    one, two = s3.upload(release / "gfx942", "one"), s3.upload(release / "again", "two")
    options = ["merge", one, two, "-o", str(tmp_path / "out"), "--dry-run", "--cache", cache]
    assert run(options) == 0
    s3.requests.clear()
    assert run(options) == 0
    assert s3.reads() == []


def test_reports_are_the_same_here_and_there(
    release: Path, web: WebServer, cache: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(release, web.root / "r")
    here = report(capsys, "inspect", str(release), "--cache", cache, status=1)
    there = report(capsys, "inspect", f"{web.url}/r", "--cache", cache, status=1)
    assert same(here, there, str(release), f"{web.url}/r")


def test_a_local_archive_that_is_known_is_not_unpacked(
    release: Path,
    tmp_path: Path,
    cache: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = tmp_path / "archives"
    assert run(["artifacts", "archive", str(release / "gfx942"), "-o", str(out)]) == 0
    capsys.readouterr()
    first = report(capsys, "inspect", str(out), "--cache", cache, status=1)

    def unpacked(*_: Any) -> None:
        raise AssertionError("it was unpacked")

    monkeypatch.setattr("kpacktools.trees.archive.decompressed", unpacked)
    assert report(capsys, "inspect", str(out), "--cache", cache, status=1) == first


def test_threads_may_keep_and_look_up_at_the_same_time(tmp_path: Path) -> None:
    def work(number: int) -> int:
        cache = Cache(str(tmp_path))
        wrong = 0
        for step in range(30):
            key = str(step % 5)
            cache.put("kind", key, data=key.encode() * 10_000)
            found = cache.get("kind", key)
            wrong += found != key.encode() * 10_000
            blocks = cache.blocks("file")
            blocks[256 * number] = bytes([number])
            blocks.save()
        return wrong

    with ThreadPoolExecutor(8) as executor:
        assert sum(executor.map(work, range(8))) == 0
    blocks = Cache(str(tmp_path)).blocks("file")
    assert all(blocks[start] == bytes([start // 256]) for start in blocks)
    assert not list(tmp_path.rglob("*.tmp"))
