"""Stores alone: what is transferred, what is tried again, what is refused and in which words."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from servers import S3Server, WebServer

from kpacktools.errors import CallError
from kpacktools.remote import s3 as s3_module
from kpacktools.remote.faults import RefusedError
from kpacktools.remote.store import open_store


def test_a_web_folder_lists_what_is_below_it(web: WebServer) -> None:
    (web.root / "a" / "gfx942:xnack+").mkdir(parents=True)
    (web.root / "a" / "gfx942:xnack+" / "b c#1.kpack").write_bytes(b"12345")
    (web.root / "a" / "d").write_bytes(b"1")
    store, path = open_store(f"{web.url}/a")
    found = store.list(path)
    assert sorted((store.relative(item.path, path), item.size) for item in found) == [
        ("d", 1),
        ("gfx942:xnack+/b c#1.kpack", 5),
    ]
    assert all(item.etag for item in found)
    assert store.join(path, "gfx942:xnack+/b c#1.kpack") in [item.path for item in found]
    assert store.bytes_read == 0


def test_a_range_transfers_its_bytes_and_no_more(web: WebServer) -> None:
    (web.root / "x").write_bytes(bytes(range(256)) * 100)
    store, path = open_store(f"{web.url}/x")
    seen = store.info(path)
    assert store.read_range(path, 250, 260, seen) == bytes(range(250, 256)) + bytes(range(4))
    assert (web.sent["x"], store.bytes_read, store.reads) == (10, 10, 1)


def test_a_busy_server_is_asked_again_and_longer_each_time(web: WebServer, pauses: list[float]) -> None:
    (web.root / "x").write_bytes(b"12345")
    store, path = open_store(f"{web.url}/x")
    web.statuses["x"] = [503, 429, 500]
    assert store.read_range(path, 1, 3) == b"23"
    assert len(pauses) == 3
    assert 0.25 <= pauses[0] <= 0.75 < 1 <= pauses[2] <= 3


def test_a_server_that_stays_busy_is_given_up(web: WebServer, pauses: list[float]) -> None:
    (web.root / "x").write_bytes(b"12345")
    store, path = open_store(f"{web.url}/x")
    web.always["x"] = 503
    with pytest.raises(CallError, match=r"cannot read http://127.0.0.1:\d+/x: 503 .*\(tried 6 times\)"):
        store.read_range(path, 1, 3)
    assert len(pauses) == 5


@pytest.mark.parametrize(
    ("status", "said"), [(404, "no such file"), (403, "not permitted"), (400, "says 400")]
)
def test_a_refusal_is_not_asked_again(web: WebServer, pauses: list[float], status: int, said: str) -> None:
    (web.root / "x").write_bytes(b"12345")
    store, path = open_store(f"{web.url}/x?token=secret")
    web.always["x"] = status
    with pytest.raises(CallError, match=said) as error:
        store.info(path)
    assert "secret" not in str(error.value)
    assert not pauses


def test_a_host_that_is_not_there_is_one_line() -> None:
    store, path = open_store("http://host.invalid/x")
    with pytest.raises(CallError, match=r"cannot read http://host.invalid/x: .*host"):
        store.info(path)


def test_a_connection_that_is_cut_is_taken_up_where_it_was(web: WebServer, pauses: list[float]) -> None:
    data = os.urandom(300_000)
    (web.root / "x").write_bytes(data)
    store, path = open_store(f"{web.url}/x")
    seen = store.info(path)
    web.cuts["x"] = [100_000, 50_000]
    with store.stream(path, seen) as stream:
        assert stream.read() == data
    assert len(web.gets) == 3
    assert web.sent["x"] < 450_000
    assert len(pauses) == 2


def test_a_stream_without_an_etag_is_not_taken_up(web: WebServer) -> None:
    (web.root / "x").write_bytes(bytes(3_000_000))
    web.etags = False
    store, path = open_store(f"{web.url}/x")
    web.cuts["x"] = [1_500_000]
    with store.stream(path, store.info(path)) as stream, pytest.raises(CallError, match="nothing tells"):
        stream.read()


def test_an_object_that_changes_between_reads_is_refused(web: WebServer) -> None:
    file = web.root / "x"
    file.write_bytes(b"12345")
    store, path = open_store(f"{web.url}/x")
    seen = store.info(path)
    file.write_bytes(b"12346")
    os.utime(file, ns=(1, 1))
    with pytest.raises(CallError, match="changed"):
        store.read_range(path, 0, 2, seen)


def test_a_server_without_ranges_says_so(web: WebServer) -> None:
    (web.root / "x").write_bytes(bytes(9_000_000))
    web.ranges = False
    store, path = open_store(f"{web.url}/x")
    with pytest.raises(RefusedError) as error:
        store.read_range(path, 5, 9)
    assert error.value.reason == "no-ranges"


def test_a_server_that_refuses_heads_is_asked_for_a_byte(web: WebServer) -> None:
    (web.root / "x").write_bytes(b"12345")
    (web.root / "empty").write_bytes(b"")
    web.head = False
    store, path = open_store(f"{web.url}/x")
    assert store.info(path).size == 5
    assert [asked for _, asked in web.gets] == ["bytes=0-0"]
    assert store.info(f"{web.url}/empty").size == 0


def test_a_server_without_index_pages_is_said_to_be_one(web: WebServer) -> None:
    (web.root / "a").mkdir()
    web.index = False
    store, path = open_store(f"{web.url}/a")
    with pytest.raises(CallError, match="cannot list"):
        store.list(path)


def test_s3_lists_all_pages(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_module, "PAGE", 3)
    client = s3.client()
    for number in range(10):
        client.put_object(Bucket=s3.bucket, Key=f"a/{number:04}", Body=b"x")
    client.put_object(Bucket=s3.bucket, Key="a/folder/", Body=b"")
    client.put_object(Bucket=s3.bucket, Key="ab/no", Body=b"x")
    store, path = open_store(f"{s3.url}/a")
    found = store.list(path)
    assert [store.relative(item.path, path) for item in found] == [f"{number:04}" for number in range(10)]
    assert all(item.etag for item in found)
    assert store.info(path).is_folder


def test_s3_ranges_and_streams(s3: S3Server) -> None:
    data = os.urandom(100_000)
    s3.client().put_object(Bucket=s3.bucket, Key="x", Body=data)
    store, path = open_store(f"{s3.url}/x")
    seen = store.info(path)
    assert store.read_range(path, 99_990, 100_000, seen) == data[-10:]
    with store.stream(path, seen) as stream:
        assert stream.read() == data
    assert store.bytes_read == 100_010
    assert len(s3.reads()) == 2


def test_s3_that_is_busy_is_asked_again(s3: S3Server, pauses: list[float]) -> None:
    s3.client().put_object(Bucket=s3.bucket, Key="x", Body=b"12345")
    store, path = open_store(f"{s3.url}/x")
    s3.faults[:] = [503, 503, 500]
    assert store.read_range(path, 0, 5) == b"12345"
    assert len(pauses) == 3


def test_s3_refusals_are_one_line_each(s3: S3Server, pauses: list[float]) -> None:
    store, path = open_store(f"{s3.url}/x")
    with pytest.raises(CallError, match="cannot read s3://releases/x: no such object"):
        store.info(path)
    with pytest.raises(CallError, match="no such bucket"):
        store.info("elsewhere/x")
    s3.faults[:] = [403]
    with pytest.raises(CallError, match="not permitted"):
        store.read_range(path, 0, 5)
    assert not store.exists(path)
    assert not pauses


def test_s3_without_credentials_says_what_to_set(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    store, path = open_store(f"{s3.url}/x")
    with pytest.raises(CallError, match="AWS_PROFILE"):
        store.info(path)


def test_s3_objects_that_change_are_refused(s3: S3Server) -> None:
    client = s3.client()
    client.put_object(Bucket=s3.bucket, Key="x", Body=b"12345")
    store, path = open_store(f"{s3.url}/x")
    seen = store.info(path)
    client.put_object(Bucket=s3.bucket, Key="x", Body=b"12346")
    with pytest.raises(CallError, match="changed"):
        store.read_range(path, 0, 5, seen)


def test_s3_objects_are_written_and_removed(s3: S3Server) -> None:
    store, path = open_store(f"{s3.url}/a/x")
    s3.faults[:] = [503]
    store.put_bytes(path, b"1")
    assert s3.keys() == ["a/x"]
    assert store.bytes_written == 1
    store.delete(path)
    store.delete(path)
    assert s3.keys() == []


def test_a_file_url_is_a_store_as_well(tmp_path: Path) -> None:
    store, path = open_store(f"file://{tmp_path}/a")
    store.put_bytes(store.join(path, "b/c"), b"12345")
    (item,) = store.list(path)
    assert store.relative(item.path, path) == "b/c"
    assert store.read_range(item.path, 1, 3, item) == b"23"
    with store.stream(item.path, item) as stream:
        assert stream.read() == b"12345"
    store.delete(item.path)
    store.delete(item.path)
    assert not store.list(path)


def test_an_unknown_protocol_is_one_line() -> None:
    with pytest.raises(CallError, match="nobody knows this protocol"):
        open_store("nosuch://x/y")
