"""Objects in S3, and in what speaks its protocol, through the client that s3fs configures.

Credentials, region and endpoint are those of the environment, as for AWS's own tools; fsspec's settings
(``FSSPEC_S3_ENDPOINT_URL``, ``FSSPEC_S3_ANON=true``) are followed too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import botocore.exceptions
from fsspec.config import conf
from fsspec.exceptions import FSTimeoutError
from s3fs import S3FileSystem

from kpacktools.remote.faults import RefusedError, TransientError
from kpacktools.remote.loop import filled, run
from kpacktools.remote.objects import Object

__all__ = ["S3Backend"]

PAGE: Final = 1000
"""Objects that are asked for at once in a listing: the most that S3 gives."""

_BUSY: Final = frozenset(
    ("SlowDown", "ServiceUnavailable", "InternalError", "RequestTimeout", "RequestTimeTooSkewed", "Throttling",
     "ThrottlingException", "TooManyRequests", "OperationAborted", "BadDigest", "IncompleteBody",
     "ConditionalRequestConflict")
)  # fmt: skip
_MISSING: Final = frozenset(("NoSuchKey", "NoSuchBucket", "NoSuchVersion", "404"))
_FORBIDDEN: Final = frozenset(
    (
        "AccessDenied",
        "InvalidAccessKeyId",
        "SignatureDoesNotMatch",
        "ExpiredToken",
        "InvalidToken",
        "401",
        "403",
    )
)
_CHANGED: Final = frozenset(("PreconditionFailed", "InvalidRange", "412", "416"))


class S3Backend:
    """See :class:`kpacktools.remote.store.Backend`. A path is ``bucket/key``."""

    def __init__(self) -> None:
        options = dict(conf.get("s3", {}))
        # Tries are counted in one place: neither botocore nor s3fs repeats a request.
        settings = {
            "max_pool_connections": 32,
            **options.pop("config_kwargs", {}),
            "retries": {"total_max_attempts": 1},
        }
        options.update(config_kwargs=settings, skip_instance_cache=True, use_listings_cache=False)
        self._system = S3FileSystem(**options)
        self._system.retries = 1
        self._loop: asyncio.AbstractEventLoop = self._system.loop

    def locate(self, url: str) -> str:
        return url.partition("://")[2].strip("/")

    def join(self, path: str, below: str) -> str:
        return f"{path}/{below}"

    def relative(self, path: str, folder: str) -> str:
        return path[len(folder) + 1 :]

    def info(self, path: str) -> Object:
        bucket, key = self._split(path)
        if key:
            try:
                head = self._call("head_object", Bucket=bucket, Key=key)
            except RefusedError as error:
                if error.reason != "missing":
                    raise
            else:
                return Object(path, head["ContentLength"], head.get("ETag"))
        page = self._call("list_objects_v2", Bucket=bucket, Prefix=key + "/" if key else "", MaxKeys=1)
        if key and not page.get("KeyCount"):
            raise RefusedError("no such object, and none below it", "missing")
        return Object(path, 0, is_folder=True)

    def list(self, path: str) -> list[Object]:
        bucket, key = self._split(path)
        found = []
        more: dict[str, Any] = {}
        while True:
            page = self._call(
                "list_objects_v2", Bucket=bucket, Prefix=key + "/" if key else "", MaxKeys=PAGE, **more
            )
            for item in page.get("Contents", ()):
                # Consoles make empty objects for folders.
                if not item["Key"].endswith("/"):
                    found.append(Object(f"{bucket}/{item['Key']}", item["Size"], item.get("ETag")))
            if not page.get("IsTruncated"):
                return found
            more = {"ContinuationToken": page["NextContinuationToken"]}

    def read(self, path: str, start: int, stop: int, expected: Object | None) -> bytes:
        body = self._body(path, f"bytes={start}-{stop - 1}", expected)
        try:
            with _faults():
                return bytes(run(self._loop, body.read()))
        finally:
            self._loop.call_soon_threadsafe(body.close)

    def transfer(self, path: str, start: int, expected: Object | None) -> _Transfer:
        return _Transfer(self._loop, self._body(path, f"bytes={start}-" if start else None, expected))

    def put(self, path: str, data: bytes) -> None:
        bucket, key = self._split(path)
        self._call("put_object", Bucket=bucket, Key=key, Body=data)

    def delete(self, path: str) -> None:
        bucket, key = self._split(path)
        self._call("delete_object", Bucket=bucket, Key=key)

    def request(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        """A request about one object, of those that only S3 has. Raises as all others do."""
        bucket, key = self._split(path)
        return self._call(method, Bucket=bucket, Key=key, **options)

    def request_in(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        """A request about the bucket that a path lies in."""
        return self._call(method, Bucket=self._split(path)[0], **options)

    def _body(self, path: str, part: str | None, expected: Object | None) -> Any:
        bucket, key = self._split(path)
        options = {} if part is None else {"Range": part}
        if expected is not None and expected.etag is not None:
            options["IfMatch"] = expected.etag
        answer = self._call("get_object", Bucket=bucket, Key=key, **options)
        if expected is not None:
            total = str(answer["ContentLength"])
            if part is not None:
                total = answer.get("ContentRange", "").rpartition("/")[2]
            if total not in (str(expected.size), "*"):
                self._loop.call_soon_threadsafe(answer["Body"].close)
                raise RefusedError(
                    f"it changed while it was read: {total} bytes, and not {expected.size}", "changed"
                )
        return answer["Body"]

    def _call(self, method: str, **options: Any) -> dict[str, Any]:
        with _faults():
            answer: dict[str, Any] = run(self._loop, self._system._call_s3(method, **options))
            return answer

    def _split(self, path: str) -> tuple[str, str]:
        bucket, key, _ = self._system.split_path(path)
        return bucket, key


class _Transfer:
    """See :class:`kpacktools.remote.store.Transfer`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, body: Any) -> None:
        self._loop = loop
        self._body = body

    def read(self, size: int) -> bytes:
        with _faults():
            return run(self._loop, filled(self._body.read, size))

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._body.close)


@contextmanager
def _faults() -> Iterator[None]:
    """What goes wrong in S3 and on the way there, in our words."""
    try:
        yield
    except (TransientError, RefusedError):
        raise
    except Exception as error:
        cause = error if isinstance(error, botocore.exceptions.ClientError) else error.__cause__
        if isinstance(cause, botocore.exceptions.ClientError):
            raise _said(cause) from error
        raise _on_the_way(error) from error


def _said(error: botocore.exceptions.ClientError) -> TransientError | RefusedError:
    code = str(error.response.get("Error", {}).get("Code", ""))
    status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    text = str(error.response.get("Error", {}).get("Message") or "")
    said = code if text in ("", code) else f"{code}: {text}"
    if code == "NotImplemented":
        return RefusedError(f"the store cannot do that ({said})", "unable")
    if code in _BUSY or status == 429 or status >= 500:
        return TransientError(said)
    if code in _MISSING or status == 404:
        return RefusedError(
            "no such bucket" if code == "NoSuchBucket" else f"no such object ({said})", "missing"
        )
    if code in _FORBIDDEN or status in (401, 403):
        return RefusedError(f"not permitted ({said})", "forbidden")
    if code in _CHANGED or status in (412, 416):
        return RefusedError(f"it changed while it was read ({said})", "changed")
    return RefusedError(f"the store says {said}")


def _on_the_way(error: Exception) -> TransientError | RefusedError:
    known = botocore.exceptions
    if isinstance(error, (known.NoCredentialsError, known.PartialCredentialsError)):
        return RefusedError(
            "no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or AWS_PROFILE, or FSSPEC_S3_ANON=true "
            "for a public bucket",
            "forbidden",
        )
    if isinstance(error, known.SSLError):
        return RefusedError(f"no secure connection: {error}")
    if isinstance(error, (TimeoutError, asyncio.TimeoutError, FSTimeoutError, known.ReadTimeoutError)):
        return TransientError("no answer in time")
    if isinstance(error, known.EndpointConnectionError) and "Name or service not known" in str(
        error.__context__
    ):
        return RefusedError(str(error))
    if isinstance(
        error, (known.HTTPClientError, known.ConnectionError, known.IncompleteReadError, ConnectionError)
    ):
        return TransientError(" ".join(str(error).split()) or "the connection was cut")
    if type(error).__module__.startswith("aiohttp."):
        return TransientError("the connection was cut")
    return RefusedError(" ".join(f"{type(error).__name__}: {error}".split()))
