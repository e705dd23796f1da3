"""Objects on web servers: HTTP/1.1 (RFC 9110) with ranges, through the session that fsspec configures.

Requests ask for the bytes as they are (``Accept-Encoding: identity``). A folder is what the server's own index page
says is in it (Apache, nginx, ``python -m http.server``): links that lead directly below it.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from html.parser import HTMLParser
from typing import Any, Final
from urllib.parse import unquote, urljoin

import aiohttp
import yarl
from fsspec.config import conf
from fsspec.exceptions import FSTimeoutError
from fsspec.implementations.http import HTTPFileSystem

from kpacktools.remote import urls
from kpacktools.remote.faults import RefusedError, TransientError
from kpacktools.remote.loop import filled, run
from kpacktools.remote.objects import Object

__all__ = ["WebBackend"]

MAX_INDEX: Final = 32 << 20
"""Bytes of an index page."""
MAX_OBJECTS: Final = 1_000_000
AT_ONCE: Final = 16
"""Requests for the sizes of listed files under way at a time."""

_TIMES: Final = aiohttp.ClientTimeout(total=None, sock_connect=30, sock_read=60)
_BUSY: Final = frozenset((408, 425, 429, 500, 502, 503, 504))
_NO_HEAD: Final = frozenset((403, 405, 501))
"""What servers, and signed URLs, answer that give an object but not its head."""
_CONTENT_RANGE: Final = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")


class WebBackend:
    """See :class:`kpacktools.remote.store.Backend`; writes nothing."""

    def __init__(self) -> None:
        options = dict(conf.get("http", {})) | dict(conf.get("https", {}))
        # Proxies come from the environment, as for any other tool.
        client = {"trust_env": True} | options.pop("client_kwargs", {})
        self._system = HTTPFileSystem(client_kwargs=client, skip_instance_cache=True, **options)
        self._loop = self._system.loop

    def locate(self, url: str) -> str:
        return url

    def join(self, path: str, below: str) -> str:
        return urls.join(path, below)

    def relative(self, path: str, folder: str) -> str:
        return unquote(urls.plain(path)[len(urls.plain(folder)) + 1 :])

    def info(self, path: str) -> Object:
        return run(self._loop, self._info(path))

    def list(self, path: str) -> list[Object]:
        return [*run(self._loop, self._list(path))]

    def read(self, path: str, start: int, stop: int, expected: Object | None) -> bytes:
        return run(self._loop, self._read(path, start, stop, expected))

    def transfer(self, path: str, start: int, expected: Object | None) -> _Transfer:
        return run(self._loop, self._transfer(path, start, expected))

    def put(self, path: str, data: bytes) -> None:
        raise RefusedError("nothing is written to web servers")

    def delete(self, path: str) -> None:
        raise RefusedError("nothing is written to web servers")

    @asynccontextmanager
    async def _answer(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str] | None = None,
        *,
        passing: frozenset[int] = frozenset(),
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """One request; an answer of a status that is neither a success nor ``passing`` is raised."""
        with _faults():
            response = await self._ask(method, url, headers)
            try:
                if response.status not in passing:
                    _refuse_failed(response)
                yield response
            finally:
                response.release()

    async def _ask(self, method: str, url: str, headers: Mapping[str, str] | None) -> aiohttp.ClientResponse:
        session = await self._system.set_session()
        options: dict[str, Any] = dict(self._system.kwargs)
        own = {**options.pop("headers", {}), "Accept-Encoding": "identity", **(headers or {})}
        response: aiohttp.ClientResponse = await session.request(
            method,
            yarl.URL(url, encoded=True),
            **{"timeout": _TIMES, **options, "headers": own, "allow_redirects": True},
        )
        return response

    async def _info(self, url: str) -> Object:
        async with self._answer("HEAD", url, passing=_NO_HEAD) as response:
            if response.status not in _NO_HEAD:
                return _object(url, response, response.headers.get("Content-Length"))
        async with self._answer("GET", url, {"Range": "bytes=0-0"}, passing=frozenset((416,))) as response:
            if response.status == 416:  # of an empty object, no byte can be had
                return _object(url, response, "0")
            _, _, total = _range_of(response)
            response.close()  # rather than read what a server without ranges sends
            return _object(url, response, total or response.headers.get("Content-Length"))

    async def _list(self, url: str) -> Sequence[Object]:
        found: list[Object] = []
        pending = [url]
        seen = set(pending)
        slots = asyncio.Semaphore(AT_ONCE)

        async def look(link: str) -> Object:
            async with slots:
                return await self._info(link)

        while pending:
            folder = pending.pop()
            links = [link for link in await self._links(folder) if link not in seen]
            seen.update(links)
            if len(seen) > MAX_OBJECTS:
                raise RefusedError(f"its index pages name more than {MAX_OBJECTS:,} objects")
            pending += [link for link in links if urls_path(link).endswith("/")]
            for item in await asyncio.gather(*(look(u) for u in links if not urls_path(u).endswith("/"))):
                if item.is_folder:
                    pending.append(item.path)
                else:
                    found.append(item)
        return found

    async def _links(self, url: str) -> Sequence[str]:
        """What an index page says lies directly in its folder; folders end with a slash."""
        bare, question, query = url.partition("?")
        asked = bare.rstrip("/") + "/" + question + query
        async with self._answer("GET", asked) as response:
            if response.content_type != "text/html":
                raise RefusedError(
                    f"the server gives no index page of this folder ({response.content_type}): name the files, "
                    "or use a store that keeps listings"
                )
            page = await response.content.read(MAX_INDEX)
            if not response.content.at_eof():
                response.close()
                raise RefusedError(f"its index page has more than {MAX_INDEX:,} bytes")
        parser = _Links()
        parser.feed(page.decode("utf-8", "replace"))
        base = bare.rstrip("/") + "/"
        links = {urljoin(base, link.partition("#")[0]) for link in parser.links if "?" not in link}
        names = {link[len(base) :] for link in links if link.startswith(base)}
        # Servers escape more characters or fewer: one spelling for all.
        spelled = {urls.join(bare, unquote(name)) + question + query for name in names if _is_child(name)}
        return sorted(spelled)

    async def _read(self, url: str, start: int, stop: int, expected: Object | None) -> bytes:
        async with self._answer("GET", url, {"Range": f"bytes={start}-{stop - 1}"}) as response:
            _refuse_changed(response, expected)
            first, last, _ = _range_of(response)
            if response.status != 206 or first is None or last is None:
                response.close()
                raise RefusedError("the server gives whole objects only, no ranges", "no-ranges")
            if first != start or last >= stop:
                raise TransientError(f"bytes {first}-{last} came, and not {start}-{stop - 1}")
            return await response.read()

    async def _transfer(self, url: str, start: int, expected: Object | None) -> _Transfer:
        headers = {"Range": f"bytes={start}-"} if start else None
        with _faults():
            response = await self._ask("GET", url, headers)
            try:
                _refuse_failed(response)
                _refuse_changed(response, expected)
                if start and _range_of(response)[0] != start:
                    raise RefusedError(
                        "it was cut, and the server gives whole objects only, no ranges", "no-ranges"
                    )
            except BaseException:
                response.close()
                raise
        return _Transfer(self._loop, response)


class _Transfer:
    """See :class:`kpacktools.remote.store.Transfer`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, response: aiohttp.ClientResponse) -> None:
        self._loop = loop
        self._response = response

    def read(self, size: int) -> bytes:
        return run(self._loop, self._read(size))

    def close(self) -> None:
        # From the loop's own thread: a connection belongs to it.
        self._loop.call_soon_threadsafe(self._response.close)

    async def _read(self, size: int) -> bytes:
        with _faults():
            return await filled(self._response.content.read, size)


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.links += [value for name, value in attrs if name == "href" and value]


def urls_path(url: str) -> str:
    """A URL without its query."""
    return url.partition("?")[0]


def _is_child(name: str) -> bool:
    """True for the name of something directly in a folder, as a link has it."""
    decoded = unquote(name)
    return "/" not in decoded.rstrip("/") and decoded.rstrip("/") not in ("", ".", "..") and "//" not in name


def _object(url: str, response: aiohttp.ClientResponse, size: str | None) -> Object:
    if response.url.raw_path.endswith("/"):
        bare, question, query = url.partition("?")
        return Object(bare.rstrip("/") + "/" + question + query, 0, is_folder=True)
    if size is None or not size.isdigit():
        raise RefusedError("the server does not say how many bytes it has")
    return Object(url, int(size), _etag(response))


def _etag(response: aiohttp.ClientResponse) -> str | None:
    """A strong entity tag (RFC 9110, 8.8.3): a weak one may stay while bytes change."""
    tag: str | None = response.headers.get("ETag")
    return None if tag is None or tag.startswith("W/") or len(tag) < 3 else tag


def _range_of(response: aiohttp.ClientResponse) -> tuple[int | None, int | None, str | None]:
    """First and last byte, and the size of the whole, where a part was sent."""
    match = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
    if response.status != 206 or match is None:
        return None, None, None
    return int(match[1]), int(match[2]), None if match[3] == "*" else match[3]


def _refuse_failed(response: aiohttp.ClientResponse) -> None:
    status = response.status
    if status < 400:
        return
    said = f"{status} {response.reason or ''}".strip()
    if status in _BUSY:
        after = response.headers.get("Retry-After", "")
        raise TransientError(said, float(after) if after.isdigit() and len(after) < 6 else 0.0)
    if status in (404, 410):
        raise RefusedError(f"no such file or folder ({said})", "missing")
    if status in (401, 403, 407):
        raise RefusedError(f"not permitted ({said})", "forbidden")
    if status in (412, 416):
        raise RefusedError(f"it changed while it was read ({said})", "changed")
    raise RefusedError(f"the server says {said}")


def _refuse_changed(response: aiohttp.ClientResponse, expected: Object | None) -> None:
    if expected is None:
        return
    total = _range_of(response)[2]
    if response.status == 200:
        total = response.headers.get("Content-Length")
    if total is not None and total != str(expected.size):
        raise RefusedError(f"it changed while it was read: {total} bytes, and not {expected.size}", "changed")
    if expected.etag is not None and _etag(response) != expected.etag:
        raise RefusedError("it changed while it was read", "changed")


@contextmanager
def _faults() -> Iterator[None]:
    """What goes wrong below HTTP, in our words."""
    try:
        yield
    except (TimeoutError, asyncio.TimeoutError, FSTimeoutError) as error:
        raise TransientError("no answer in time") from error
    except aiohttp.ClientConnectorDNSError as error:
        reason = error.os_error
        if getattr(reason, "errno", None) == getattr(socket, "EAI_AGAIN", None):
            raise TransientError(f"the name of the host cannot be looked up now: {error.host}") from error
        raise RefusedError(f"no such host: {error.host}") from error
    except (aiohttp.ClientSSLError, aiohttp.ServerFingerprintMismatch) as error:
        raise RefusedError(f"no secure connection: {error}") from error
    except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError, aiohttp.TooManyRedirects, ValueError) as error:
        raise RefusedError(f"it is no URL that can be followed: {type(error).__name__}") from error
    except aiohttp.ClientPayloadError as error:
        raise TransientError("the connection was cut") from error
    except (aiohttp.ClientConnectionError, ConnectionError) as error:
        raise TransientError(getattr(error, "strerror", None) or "the connection was cut") from error
    except aiohttp.ClientError as error:
        raise RefusedError(f"{type(error).__name__}: {error}") from error
