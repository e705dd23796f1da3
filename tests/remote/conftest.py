"""Servers as fixtures. Tests of remote inputs and outputs do not wait between tries."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from kpacktools.remote import faults

pytest.importorskip("fsspec")
pytest.importorskip("moto")
from servers import S3Server, WebServer, s3_server, web_server

from kpacktools.remote.store import close_stores


@pytest.fixture(scope="session", autouse=True)
def _one_loader() -> Iterator[None]:
    """AWS's library reads its descriptions of all services anew for every session: a tenth of a second each."""
    import botocore.session

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(botocore.session, "create_loader", cache(botocore.session.create_loader))
        yield


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """The seconds that would have been waited between tries."""
    found: list[float] = []
    monkeypatch.setattr(faults, "_sleep", found.append)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    close_stores()
    yield found
    close_stores()


@pytest.fixture
def web(tmp_path: Path) -> Iterator[WebServer]:
    """A web server over ``tmp_path / "web"``."""
    root = tmp_path / "web"
    root.mkdir()
    with web_server(root) as served:
        yield served


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    """An S3 server with one bucket."""
    with s3_server(monkeypatch) as server:
        yield server
