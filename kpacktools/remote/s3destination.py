"""A folder of a bucket as a place to publish in.

Every object appears at once, by one PUT or by the completion of a multipart upload; S3 checks the MD5 of every
part, and refuses to create what is there. Entity tags are the MD5 of what was sent, unless the bucket encrypts with a
customer's key: where they agree nothing has to be read.
"""

from __future__ import annotations

import base64
import logging
import threading
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta, timezone
from typing import Any, Final

from kpacktools.errors import CallError
from kpacktools.remote.destination import Found, StoreFolder, Taken, Upload, WholeUpload, found_in
from kpacktools.remote.faults import RefusedError, TransientError, persistently
from kpacktools.remote.objects import Object
from kpacktools.remote.s3 import S3Backend
from kpacktools.remote.staged import Staged, part_size, staged_bytes
from kpacktools.remote.store import Store

__all__ = ["STALE_AFTER", "S3Destination"]

STALE_AFTER: Final = timedelta(hours=24)
"""Age at which an upload that was begun and not completed counts as that of a killed run."""

_logger = logging.getLogger(__name__)


class S3Destination(StoreFolder):
    """See :class:`kpacktools.remote.destination.Destination`."""

    def __init__(self, url: str, store: Store, path: str) -> None:
        backend = store.backend
        assert isinstance(backend, S3Backend)
        super().__init__(url, store, path)
        self._backend = backend
        self._has_conditions = True
        """False once the store said that it knows no conditional writes."""

    def same(self, staged: Staged, found: Found) -> bool:
        return found.size == staged.size and (found.etag == staged.etag or super().same(staged, found))

    def upload(self, staged: Staged, *, create: bool) -> Upload:
        if len(staged.parts) == 1:
            return WholeUpload(lambda: self.put(staged, _part(staged, 0), create=create))
        return _Multipart(self, staged, create)

    def put_bytes(self, name: str, data: bytes, *, create: bool) -> None:
        self.put(staged_bytes(name, data), data, create=create)

    def put(self, staged: Staged, data: bytes, *, create: bool) -> Found:
        """Write an object by one request. Raises :class:`~kpacktools.remote.destination.Taken`."""
        md5 = _base64(staged.parts[0])
        answer = self.conditional("put_object", staged.name, create, Body=data, ContentMD5=md5)
        self.sent(len(data))
        return _sent(staged, answer)

    def sent(self, size: int) -> None:
        """So many more bytes were written."""
        self._store.count_written(size)

    def conditional(self, method: str, name: str, create: bool, **options: Any) -> dict[str, Any]:
        """A request that lets an object appear, with ``create`` only where nothing has its name.

        Raises :class:`~kpacktools.remote.destination.Taken`.
        """
        while True:
            condition = {"IfNoneMatch": "*"} if create and self._has_conditions else {}
            try:
                return self.request(method, name, **options, **condition)
            except RefusedError as error:
                if condition and error.reason == "changed":
                    raise Taken from None
                if condition and error.reason == "unable":
                    self._has_conditions = False
                    continue
                # A completion whose answer was lost is one that nobody knows when it is asked for again.
                if error.reason == "missing" and method.startswith("complete") and self._exists(name):
                    raise Taken from None
                raise CallError(f"cannot write {self._store.url(self._at(name))}: {error}") from error

    def _exists(self, name: str) -> bool:
        return self._store.exists(self._at(name))

    def request(self, method: str, name: str, **options: Any) -> dict[str, Any]:
        """A request about one object, until it succeeds. Raises :class:`RefusedError` too."""
        path = self._at(name)
        what = f"cannot write {self._store.url(path)}"
        return persistently(lambda: self._backend.request(method, path, **options), what)

    def clean(self) -> None:
        """Abort the multipart uploads below the folder that are older than :data:`STALE_AFTER`.

        Their parts cost money and are seen by nobody. An age is all that S3 says of them; no run sends for so long.
        """
        try:
            for key, upload in list(self._stale()):
                self._backend.request_in("abort_multipart_upload", self._path, Key=key, UploadId=upload)
        except (RefusedError, TransientError) as error:
            _logger.warning("%s: uploads of killed runs were not looked for: %s", self.url, error)

    def _stale(self) -> Iterator[tuple[str, str]]:
        latest = datetime.now(timezone.utc) - STALE_AFTER
        folder = self._path.partition("/")[2]
        more: dict[str, str] = {"Prefix": f"{folder}/" if folder else ""}
        while True:
            page = self._backend.request_in("list_multipart_uploads", self._path, **more)
            for item in page.get("Uploads", ()):
                if item["Initiated"] < latest:
                    yield item["Key"], item["UploadId"]
            if not page.get("IsTruncated"):
                return
            more |= {"KeyMarker": page["NextKeyMarker"], "UploadIdMarker": page["NextUploadIdMarker"]}


class _Multipart:
    """Parts, and their completion; see :class:`kpacktools.remote.destination.Upload`."""

    def __init__(self, place: S3Destination, staged: Staged, create: bool) -> None:
        self.pieces = len(staged.parts)
        self._place = place
        self._staged = staged
        self._create = create
        self._lock = threading.Lock()
        self._upload = ""
        self._tags: dict[int, str] = {}

    def send(self, piece: int) -> None:
        upload = self._begun()
        data = _part(self._staged, piece)
        answer = self._request(
            "upload_part",
            UploadId=upload,
            PartNumber=piece + 1,
            Body=data,
            ContentMD5=_base64(self._staged.parts[piece]),
        )
        self._tags[piece] = answer["ETag"]
        self._place.sent(len(data))

    def finish(self) -> Found:
        parts = [{"PartNumber": piece + 1, "ETag": self._tags[piece]} for piece in range(self.pieces)]
        answer = self._place.conditional(
            "complete_multipart_upload",
            self._staged.name,
            self._create,
            UploadId=self._upload,
            MultipartUpload={"Parts": parts},
        )
        self._upload = ""
        return _sent(self._staged, answer)

    def cancel(self) -> None:
        if not self._upload:
            return
        try:
            self._request("abort_multipart_upload", UploadId=self._upload)
        except CallError as error:
            _logger.warning("%s; the next run removes what was uploaded of it", error)

    def _begun(self) -> str:
        with self._lock:
            if not self._upload:
                self._upload = self._request("create_multipart_upload")["UploadId"]
            return self._upload

    def _request(self, method: str, **options: Any) -> dict[str, Any]:
        try:
            return self._place.request(method, self._staged.name, **options)
        except RefusedError as error:
            raise CallError(f"cannot write {self._place.url}/{self._staged.name}: {error}") from error


def _sent(staged: Staged, answer: Mapping[str, Any]) -> Found:
    """What an object is, by the answer to the request that let it appear."""
    return found_in(Object(staged.name, staged.size, answer.get("ETag")))


def _part(staged: Staged, piece: int) -> bytes:
    step = part_size(staged.size)
    size = min(step, staged.size - piece * step)
    try:
        with open(staged.path, "rb") as stream:
            stream.seek(piece * step)
            data = stream.read(size)
    except OSError as error:
        raise CallError(f"cannot read {staged.path}: {error.strerror}") from error
    if len(data) != size:
        raise CallError(f"{staged.path} changed while it was uploaded")
    return data


def _base64(digest: bytes) -> str:
    return base64.b64encode(digest).decode()
