"""Objects in any store that fsspec knows and that has no module of its own here: ``file:``, ``memory:``, ``gs:``.

What such a store says of an object is trusted as far as it goes. There is no common word for an entity tag: only
those are taken that are known to follow the bytes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import fsspec

from kpacktools.errors import CallError
from kpacktools.remote.faults import RefusedError, TransientError
from kpacktools.remote.objects import Object

__all__ = ["AnyBackend"]

_TAGS: Final = ("ETag", "etag")


class AnyBackend:
    """See :class:`kpacktools.remote.store.Backend`."""

    def __init__(self, url: str, scheme: str) -> None:
        if scheme not in fsspec.available_protocols():
            raise CallError(
                f"{url.partition('://')[0]}://: nobody knows this protocol; s3, https and file are known"
            )
        kind = fsspec.get_filesystem_class(scheme)
        options = {
            **kind._get_kwargs_from_urls(url),
            "use_listings_cache": False,
            "skip_instance_cache": True,
        }
        self._system: Any = kind(**options)

    def locate(self, url: str) -> str:
        return str(self._system._strip_protocol(url)).rstrip("/")

    def join(self, path: str, below: str) -> str:
        return f"{path}/{below}"

    def relative(self, path: str, folder: str) -> str:
        return path[len(folder) :].lstrip("/")

    def info(self, path: str) -> Object:
        with _faults():
            return _object(self._system.info(path))

    def list(self, path: str) -> list[Object]:
        with _faults():
            found = self._system.find(path, withdirs=False, detail=True)
        return [_object(item) for name, item in found.items() if name.rstrip("/") != path]

    def read(self, path: str, start: int, stop: int, expected: Object | None) -> bytes:
        self._refuse_changed(path, expected)
        with _faults():
            return bytes(self._system.cat_file(path, start=start, end=stop))

    def transfer(self, path: str, start: int, expected: Object | None) -> _Transfer:
        self._refuse_changed(path, expected)
        return _Transfer(self._system, path, start)

    def put(self, path: str, data: bytes) -> None:
        with _faults():
            self._system.makedirs(self._system._parent(path), exist_ok=True)
            self._system.pipe_file(path, data)

    def put_file(self, path: str, source: str) -> None:
        """Write an object of any size from a local file; in some stores less than all of it is seen meanwhile."""
        with _faults():
            self._system.makedirs(self._system._parent(path), exist_ok=True)
            self._system.put_file(source, path)

    def move(self, source: str, target: str) -> None:
        """Rename an object, over one that is there."""
        with _faults():
            self._system.makedirs(self._system._parent(target), exist_ok=True)
            self._system.mv(source, target)

    def delete(self, path: str) -> None:
        try:
            with _faults():
                self._system.rm_file(path)
        except RefusedError as error:
            if error.reason != "missing":
                raise

    def _refuse_changed(self, path: str, expected: Object | None) -> None:
        if expected is not None and self.info(path)[1:3] != expected[1:3]:
            raise RefusedError("it changed while it was read", "changed")


class _Transfer:
    """See :class:`kpacktools.remote.store.Transfer`; in ranges, since not every file system streams."""

    def __init__(self, system: Any, path: str, start: int) -> None:
        self._system = system
        self._path = path
        self._at = start
        with _faults():
            self._size: int = system.info(path)["size"]

    def read(self, size: int) -> bytes:
        stop = min(self._at + size, self._size)
        if stop <= self._at:
            return b""
        with _faults():
            data = bytes(self._system.cat_file(self._path, start=self._at, end=stop))
        self._at += len(data)
        return data

    def close(self) -> None:
        """Nothing is held between ranges."""


def _object(item: dict[str, Any]) -> Object:
    path = str(item["name"]).rstrip("/")
    if item["type"] == "directory":
        return Object(path, 0, is_folder=True)
    if not isinstance(item["size"], int):
        raise RefusedError("the store does not say how many bytes it has")
    tag = next((item[name] for name in _TAGS if isinstance(item.get(name), str)), None)
    return Object(path, item["size"], tag)


@contextmanager
def _faults() -> Iterator[None]:
    try:
        yield
    except RefusedError:
        raise
    except FileNotFoundError as error:
        raise RefusedError("no such file or folder", "missing") from error
    except PermissionError as error:
        raise RefusedError(f"not permitted ({error.strerror or error})", "forbidden") from error
    except (TimeoutError, asyncio.TimeoutError, ConnectionError) as error:
        raise TransientError(str(error) or "no answer in time") from error
    except NotImplementedError as error:
        raise RefusedError("the store cannot do that") from error
    except OSError as error:
        raise RefusedError(str(error.strerror or error)) from error
    except ImportError:
        raise
    except Exception as error:  # stores raise errors of their own libraries
        raise RefusedError(" ".join(f"{type(error).__name__}: {error}".split())) from error
