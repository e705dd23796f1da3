"""Published sets as a reader sees them, without the code under test: the report first, then what it lists."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from servers import S3Server

REPORT = "kpacktools-report.json"


class Bucket(Protocol):
    """A place that sets are published in."""

    url: str

    def get(self, name: str) -> bytes | None:
        """An object's bytes."""

    def names(self) -> list[str]:
        """Everything below the place."""

    def put(self, name: str, data: bytes) -> None:
        """Write an object, as anybody could."""

    def remove(self, name: str) -> None:
        """Remove an object."""


@dataclass
class S3Bucket:
    """A folder of a bucket."""

    server: S3Server
    folder: str = "7.15/set"

    def __post_init__(self) -> None:
        self.url = f"{self.server.url}/{self.folder}"
        self._client: Any = self.server.client()

    def get(self, name: str) -> bytes | None:
        with contextlib.suppress(self._client.exceptions.NoSuchKey):
            answer = self._client.get_object(Bucket=self.server.bucket, Key=f"{self.folder}/{name}")
            with contextlib.closing(answer["Body"]) as body:
                data: bytes = body.read()
                return data
        return None

    def names(self) -> list[str]:
        inside = f"{self.folder}/"
        return [key.removeprefix(inside) for key in self.server.keys() if key.startswith(inside)]  # noqa: SIM118

    def put(self, name: str, data: bytes) -> None:
        self._client.put_object(Bucket=self.server.bucket, Key=f"{self.folder}/{name}", Body=data)

    def remove(self, name: str) -> None:
        self._client.delete_object(Bucket=self.server.bucket, Key=f"{self.folder}/{name}")


@dataclass
class FileBucket:
    """A local folder under a ``file:`` URL."""

    root: Path

    def __post_init__(self) -> None:
        self.url = self.root.as_uri()

    def get(self, name: str) -> bytes | None:
        try:
            return (self.root / name).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def names(self) -> list[str]:
        found = []
        for where, folders, names in os.walk(self.root):
            folders[:] = [name for name in folders if not name.endswith(".tmp")]
            found += [(Path(where) / name).relative_to(self.root).as_posix() for name in names]
        return sorted(found)

    def put(self, name: str, data: bytes) -> None:
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_bytes(data)

    def remove(self, name: str) -> None:
        (self.root / name).unlink()


def files_below(root: Path) -> dict[str, bytes]:
    """A local run's output: path -> bytes."""
    return {
        file.relative_to(root).as_posix(): file.read_bytes() for file in root.rglob("*") if file.is_file()
    }


def read_set(bucket: Bucket) -> dict[str, bytes] | None:
    """A set as its report has it: None where there is no report; fails where a listed file is not there, whole.

    A reader that finds the report gone or another one after it read the files begins again.
    """
    while True:
        data = bucket.get(REPORT)
        if data is None:
            return None
        listed = json.loads(data)["published"]["files"]
        read = {file["path"]: bucket.get(file["path"]) for file in listed}
        if bucket.get(REPORT) != data:
            continue
        return {file["path"]: _checked(file, read[file["path"]]) for file in listed}


def _checked(file: Mapping[str, Any], data: bytes | None) -> bytes:
    assert data is not None, f"{file['path']} is listed and not there"
    assert len(data) == file["bytes"], f"{file['path']} has {len(data)} bytes and not {file['bytes']}"
    assert hashlib.sha256(data).hexdigest() == file["sha256"], f"{file['path']} has other bytes"
    return data


@dataclass
class Poller:
    """Reads a set again and again until it is told to stop."""

    bucket: Bucket
    stopped: bool = False
    error: BaseException | None = None
    absent: int = 0
    whole: int = 0

    def run(self) -> None:
        """For a thread; see what was found in the counts and in ``error``."""
        try:
            while not self.stopped:
                if read_set(self.bucket) is None:
                    self.absent += 1
                else:
                    self.whole += 1
                time.sleep(0.001)
        except BaseException as error:  # noqa: BLE001 (it is raised in the test's own thread)
            self.error = error
