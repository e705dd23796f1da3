"""Servers on 127.0.0.1 that tests read from and write to: a web server that can misbehave, and S3 by moto."""

from __future__ import annotations

import contextlib
import hashlib
import html
import os
import re
import socket
import threading
import time
import urllib.parse
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

_BLOCK = 1 << 20


@dataclass
class WebServer:
    """The files below a folder over HTTP, with index pages; what it was asked for, and how it misbehaves."""

    root: Path
    ranges: bool = True
    etags: bool = True
    index: bool = True
    head: bool = True
    statuses: dict[str, list[int]] = field(default_factory=dict)
    """Path -> statuses that the next requests for it are answered with."""
    cuts: dict[str, list[int]] = field(default_factory=dict)
    """Path -> bytes after which the next answers break off."""
    always: dict[str, int] = field(default_factory=dict)
    """Path -> the status of every answer."""
    refused_after_head: dict[str, int] = field(default_factory=dict)
    """Path -> the status of every GET; HEAD succeeds."""
    gets: list[tuple[str, str]] = field(default_factory=list)
    """(path, range) of each GET of a file."""
    sent: Counter[str] = field(default_factory=Counter)
    """Path -> bytes of it that were sent."""
    url: str = ""

    def forget(self) -> None:
        """Begin to count anew."""
        self.gets.clear()
        self.sent.clear()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    """Headers and body are two packets: the second would wait 40 ms for the first one's acknowledgement."""
    served: WebServer

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def log_message(self, *_: Any) -> None:
        """Nothing: stderr is the test's."""

    def _answer(self, *, body: bool) -> None:
        served = self.served
        name = urllib.parse.unquote(self.path.partition("?")[0]).strip("/")
        status = served.always.get(name, served.refused_after_head.get(name) if body else None)
        if status is None and served.statuses.get(name):
            status = served.statuses[name].pop(0)
        if status is None and not body and not served.head:
            status = 403
        file = served.root / name
        if status is None and not file.exists():
            status = 404
        if status is not None:
            self._send(status, b"it failed", {"Retry-After": "0"} if status == 503 else {}, body=body)
        elif file.is_dir():
            self._index(file, body=body)
        else:
            self._file(name, file, body=body)

    def _index(self, folder: Path, *, body: bool) -> None:
        if not self.path.partition("?")[0].endswith("/"):
            path, question, query = self.path.partition("?")
            self._send(301, b"", {"Location": f"{path}/{question}{query}"}, body=body)
        elif not self.served.index:
            self._send(403, b"no listing", {}, body=body)
        else:
            names = [child.name + ("/" if child.is_dir() else "") for child in sorted(folder.iterdir())]
            links = [
                f'<a href="{html.escape(urllib.parse.quote(name, safe="/"))}">{html.escape(name)}</a>'
                for name in ["../", *names]
            ]
            # As browsers see it, a colon in the first part of a link would be a scheme.
            page = "<html><body>" + "\n".join(links) + '<a href="?C=N;O=D">Name</a></body></html>'
            self._send(200, page.encode(), {"Content-Type": "text/html; charset=utf-8"}, body=body)

    def _file(self, name: str, file: Path, *, body: bool) -> None:
        served = self.served
        size = file.stat().st_size
        start, stop, status = 0, size, 200
        headers = {"Content-Type": "application/octet-stream"}
        if served.etags:
            stamp = f"{file.stat().st_mtime_ns}-{size}-{name}"
            headers["ETag"] = f'"{hashlib.sha256(stamp.encode()).hexdigest()[:16]}"'
        asked = self.headers.get("Range", "")
        match = re.fullmatch(r"bytes=(\d+)-(\d*)", asked)
        if match and served.ranges:
            start = int(match[1])
            stop = min(int(match[2]) + 1, size) if match[2] else size
            if start >= size:
                self._send(416, b"", {"Content-Range": f"bytes */{size}"}, body=body)
                return
            status = 206
            headers["Content-Range"] = f"bytes {start}-{stop - 1}/{size}"
        if body:
            served.gets.append((name, asked))
        self.send_response(status)
        for key, value in {**headers, "Content-Length": str(stop - start)}.items():
            self.send_header(key, value)
        self.end_headers()
        if not body:
            return
        cut = served.cuts[name].pop(0) if served.cuts.get(name) else None
        end = stop if cut is None else min(stop, start + cut)
        with contextlib.suppress(ConnectionError), file.open("rb") as stream:
            stream.seek(start)
            while start < end:
                data = stream.read(min(_BLOCK, end - start))
                served.sent[name] += len(data)  # before: the client may look as soon as it has them
                self.wfile.write(data)
                start += len(data)
        if end < stop:
            self.close_connection = True
            time.sleep(0.1)  # what was sent arrives before the news that there is no more
            self.connection.shutdown(socket.SHUT_RDWR)

    def _send(self, status: int, data: bytes, headers: dict[str, str], *, body: bool) -> None:
        self.send_response(status)
        for key, value in {**headers, "Content-Length": str(len(data))}.items():
            self.send_header(key, value)
        self.end_headers()
        if body:
            self.wfile.write(data)


class _Quiet(ThreadingHTTPServer):
    def handle_error(self, *_: Any) -> None:
        """Nothing: a client that goes away is what some tests are about."""


@contextlib.contextmanager
def web_server(root: Path, **how: Any) -> Iterator[WebServer]:
    """Serve a folder until the block ends."""
    served = WebServer(root, **how)
    handler = type("Handler", (_Handler,), {"served": served})
    server = _Quiet(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    server.block_on_close = False
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    served.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass
class S3Server:
    """moto's S3, with one bucket."""

    endpoint: str
    bucket: str = "releases"
    requests: list[tuple[str, str]] = field(default_factory=list)
    """(method, path with query) of each request so far."""
    faults: list[int] = field(default_factory=list)
    """Statuses that the next requests are answered with instead."""
    refuses_conditions: bool = False
    """Conditional writes are answered as by a store that does not know them."""
    loses: Callable[[str, str], bool] = field(default=lambda method, path: False)
    """True for requests that are carried out, and whose answer is lost."""
    fault_for: Callable[[str, str], int | None] = field(default=lambda method, path: None)
    """The same by method and path with query."""

    @property
    def url(self) -> str:
        return f"s3://{self.bucket}"

    def client(self) -> Any:
        """A client of AWS's own library, to look at what is there without the code under test."""
        import boto3

        return boto3.client("s3", endpoint_url=self.endpoint, region_name="us-east-1")

    def upload(self, folder: Path, key: str = "") -> str:
        """Put the files below a folder, or one file, under a key; returns the URL."""
        client = self.client()
        files = [folder] if folder.is_file() else [file for file in folder.rglob("*") if file.is_file()]
        for file in files:
            below = "" if file == folder else file.relative_to(folder).as_posix()
            client.upload_file(str(file), self.bucket, "/".join(part for part in (key, below) if part))
        return f"{self.url}/{key}" if key else self.url

    def keys(self) -> list[str]:
        """Every key in the bucket."""
        pages = self.client().get_paginator("list_objects_v2").paginate(Bucket=self.bucket)
        return sorted(item["Key"] for page in pages for item in page.get("Contents", ()))

    def unfinished(self) -> list[str]:
        """Keys of uploads that were begun and neither completed nor aborted."""
        found = self.client().list_multipart_uploads(Bucket=self.bucket)
        return [item["Key"] for item in found.get("Uploads", ())]

    def reads(self) -> list[str]:
        """The GET requests for bytes of objects so far."""
        place = f"/{self.bucket}/"
        return [
            path
            for method, path in self.requests
            if method == "GET" and path.startswith(place) and "?" not in path and len(path) > len(place)
        ]


class _Watched:
    """A WSGI application whose requests are noted, and answered with faults where that is asked for."""

    def __init__(self, inner: Any, server: S3Server) -> None:
        self._inner = inner
        self._server = server

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        query = environ.get("QUERY_STRING", "")
        path = environ.get("PATH_INFO", "") + (f"?{query}" if query else "")
        self._server.requests.append((environ["REQUEST_METHOD"], path))
        status = self._server.fault_for(environ["REQUEST_METHOD"], path)
        if self._server.refuses_conditions and environ.get("HTTP_IF_NONE_MATCH"):
            status = 501
        if status is None and self._server.faults:
            status = self._server.faults.pop(0)
        if status is not None:
            code = {501: "NotImplemented", 503: "SlowDown", 403: "AccessDenied", 500: "InternalError"}.get(
                status, "Fault"
            )
            data = (
                f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>as asked</Message></Error>".encode()
            )
            start_response(
                f"{status} Fault", [("Content-Type", "application/xml"), ("Content-Length", str(len(data)))]
            )
            return [data]
        if self._server.loses(environ["REQUEST_METHOD"], path):
            with contextlib.closing(self._inner(environ, lambda *_: None)) as answer:
                for _ in answer:
                    pass
            start_response("503 Lost", [("Content-Length", "0")])
            return [b""]
        return self._inner(environ, start_response)


@contextlib.contextmanager
def s3_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    """An S3 server with an empty bucket until the block ends, and the environment that leads there."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Quiet(WSGIRequestHandler):
        def log(self, *_: Any) -> None:
            """Nothing: stderr is the test's."""

    server = S3Server("")
    application = _Watched(DomainDispatcherApplication(create_backend_app), server)
    served = make_server("127.0.0.1", 0, application, threaded=True, request_handler=Quiet)
    served.daemon_threads = True  # type: ignore[attr-defined]
    served.block_on_close = False  # type: ignore[attr-defined]
    thread = threading.Thread(target=served.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    server.endpoint = f"http://127.0.0.1:{served.server_port}"
    for name in [name for name in os.environ if name.startswith(("AWS_", "FSSPEC_"))]:
        monkeypatch.delenv(name)
    for name, value in {
        "AWS_ENDPOINT_URL": server.endpoint,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    try:
        import urllib.request

        reset = urllib.request.Request(f"{server.endpoint}/moto-api/reset", method="POST")
        with contextlib.suppress(OSError):
            urllib.request.urlopen(reset).close()
        server.client().create_bucket(Bucket=server.bucket)
        server.requests.clear()
        yield server
    finally:
        served.shutdown()
        served.server_close()
        thread.join()
