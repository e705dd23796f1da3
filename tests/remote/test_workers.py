"""Inputs at URLs that workers read by themselves, and what they do where they cannot."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from servers import S3Server, WebServer

from builders import Build, contents
from kpacktools.commands import MergeOptions, inspect, merge
from kpacktools.hookspecs import Depth
from kpacktools.pipeline import Settings
from kpacktools.reports.jsonreport import as_json
from kpacktools.tasks.cluster import workers_at
from kpacktools.tasks.log import open_log

pytest.importorskip("distributed", reason="needs the extra kpacktools[dask]")

Made = Callable[..., Build]


@pytest.fixture
def release(build: Made, tmp_path: Path, settings: Settings) -> Path:
    """Two shards, one of them as archives."""
    for key in ("gfx942", "gfx950"):
        made = build(key).host()
        made.rocke(key)
    folder = made.root.parent
    merge([str(folder / "gfx950")], str(folder / "packed"), settings, MergeOptions(archive="zst"))
    return folder


@pytest.fixture
def away(settings: Settings, s3: S3Server, web: WebServer) -> Iterator[Settings]:
    """With workers that are started once the servers are there: their addresses are in the environment."""
    with workers_at("local:2") as workers:
        yield replace(settings, depth=Depth.CONTENT, workers=workers)


def placed(log: Path) -> set[str]:
    """Where the tasks of a log ran: ``here``, ``there``."""
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    return {"here" if line["worker"].endswith(f":{os.getpid()}") else "there" for line in lines}


@pytest.mark.parametrize("names", [("gfx942", "gfx950"), ("gfx942", "packed")])
def test_workers_read_a_store_by_themselves(
    names: tuple[str, str], release: Path, away: Settings, settings: Settings, s3: S3Server, tmp_path: Path
) -> None:
    urls = [s3.upload(release / name, name) for name in names]
    with open_log(str(tmp_path / "log")) as log:
        report = merge(urls, str(tmp_path / "away"), replace(away, log=log))
    assert report.ok
    assert placed(tmp_path / "log") == {"there"}
    assert merge([str(release / n) for n in names], str(tmp_path / "here"), settings).ok
    assert contents(tmp_path / "here") == contents(tmp_path / "away")


def test_workers_read_a_web_server_by_themselves(
    release: Path, away: Settings, settings: Settings, web: WebServer, tmp_path: Path
) -> None:
    (release / "packed").rename(tmp_path / "web" / "packed")
    url = f"{web.url}/packed/hipkernelprovider_lib_gfx950.tar.zst"
    with open_log(str(tmp_path / "log")) as log:
        report = inspect([url], replace(away, log=log))
    assert placed(tmp_path / "log") == {"there"}
    assert as_json(report) == as_json(inspect([url], replace(away, workers=None)))


def test_what_workers_cannot_reach_is_read_here(
    release: Path, away: Settings, s3: S3Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def without_key() -> None:
        from kpacktools.remote import faults
        from kpacktools.remote.store import close_stores

        faults._sleep = lambda seconds: None  # not twenty of them between the tries
        os.environ["AWS_ENDPOINT_URL"] = "http://127.0.0.1:1"
        os.environ["NO_PROXY"] = "*"
        close_stores()

    away.workers.executor._client.run(without_key)  # type: ignore[union-attr]
    url = s3.upload(release / "gfx942", "gfx942")
    with open_log(str(tmp_path / "log")) as log:
        report = inspect([url], replace(away, log=log))
    assert report.ok
    assert placed(tmp_path / "log") == {"here"}
    assert "the workers do not see the same files" in caplog.text


def test_workers_make_what_is_published(
    release: Path, away: Settings, settings: Settings, s3: S3Server, tmp_path: Path
) -> None:
    shards = [str(release / name) for name in ("gfx942", "gfx950")]
    with open_log(str(tmp_path / "log")) as log:
        assert merge(shards, f"{s3.url}/away", replace(away, depth=Depth.TOC, log=log)).ok
    assert placed(tmp_path / "log") == {"there"}
    assert merge(shards, f"{s3.url}/here", settings).ok
    found = list(s3.keys())
    keys = [key.partition("/")[2] for key in found if key.startswith("away/")]
    assert keys == [key.partition("/")[2] for key in found if key.startswith("here/")]

    def body(key: str) -> bytes:
        data: bytes = s3.client().get_object(Bucket=s3.bucket, Key=key)["Body"].read()
        return data

    same = [key for key in keys if "kpacktools" not in key]
    assert len(same) == 8
    assert [body(f"away/{key}") for key in same] == [body(f"here/{key}") for key in same]
