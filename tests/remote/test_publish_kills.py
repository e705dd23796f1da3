"""Publishers that are killed at any moment, while a reader looks: a report whose files are not all there is never seen.

``KPACKTOOLS_KILLS=30`` kills the publisher 30 times in each kind of store, and not just often enough to meet an
empty place and an older set; ``-rP`` shows what was there afterwards.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from reading import REPORT, Bucket, FileBucket, Poller, S3Bucket, files_below, read_set

REPOSITORY = Path(__file__).resolve().parents[2]
SHARDS = REPOSITORY / "examples" / "shards"
KILLS = int(os.environ.get("KPACKTOOLS_KILLS", "0")) or 2
SMALL_FILES = 100
PARTS = 3
"""Parts that the largest file is uploaded in."""

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")


@pytest.fixture(params=["s3", "file"])
def bucket(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bucket]:
    """A place to publish in, with nothing in it."""
    if request.param == "s3":
        yield S3Bucket(request.getfixturevalue("s3"))
    else:
        yield FileBucket(tmp_path / "store" / "set")


def test_a_reader_never_sees_a_report_whose_files_are_not_all_there(bucket: Bucket, tmp_path: Path) -> None:
    shards = tmp_path / "shards"
    shutil.copytree(SHARDS, shards)
    host = next(shards.glob("gfx942/*")) / "ml-libs/hipkernelprovider/stage/lib/libhost.bin"
    host.write_bytes(random.Random(1).randbytes((PARTS - 1) * (8 << 20) + 1))
    for number in range(SMALL_FILES):
        host.with_name(f"small-{number:03}").write_bytes(b"%d" % number)
    words = ["merge", *map(str, sorted(shards.iterdir())), "-o"]
    places = tmp_path / "tmp"
    places.mkdir()
    environment = {**os.environ, "TMPDIR": str(places)}

    def start(out: str, *options: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "kpacktools", *words, out, *options],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            cwd=REPOSITORY,
            env=environment,
        )

    def finish(process: subprocess.Popen[str]) -> None:
        _, stderr = process.communicate(timeout=120)
        assert process.returncode == 0, stderr

    finish(start(str(tmp_path / "local")))
    new = files_below(tmp_path / "local")
    old = {name: b"old" + data if "gfx950" in name else data for name, data in new.items()}
    started = time.monotonic()
    process = start(bucket.url)
    begins = _until_it_publishes(process, bucket, is_there=False) - started
    while bucket.get(REPORT) is None and process.poll() is None:
        time.sleep(0.001)
    publishes = time.monotonic() - started - begins
    finish(process)
    assert read_set(bucket) == new

    figures: Counter[str] = Counter()
    for number in range(KILLS):
        is_there = number % 2 == 1
        _prepare(bucket, old if is_there else {})
        options = ["--replace"] if is_there else []
        poller = Poller(bucket)
        reader = threading.Thread(target=poller.run)
        reader.start()
        process = start(bucket.url, *options)
        # Most kills come while something is uploaded, which is a part of a run.
        if random.random() < 0.8:
            _until_it_publishes(process, bucket, is_there)
            time.sleep(random.uniform(0, publishes))
        else:
            time.sleep(random.uniform(0, begins + publishes))
        was_over = process.poll() is not None
        process.kill()
        process.communicate(timeout=60)
        poller.stopped = True
        reader.join()
        if poller.error:
            raise poller.error
        after = read_set(bucket)
        assert after in ((None, old, new) if is_there else (None, new))
        files = len(set(bucket.names()) - {REPORT})
        what = "no set" if after is None else "the old set" if after == old else "the new set"
        figures[f"{'over' if was_over else 'killed'}: {what}"] += 1
        figures["files without a report"] += files if after is None else 0
        figures["reads of a whole set"] += poller.whole
        figures["reads without a report"] += poller.absent
        figures["unfinished uploads"] += _unfinished(bucket)
        figures["temporary folders left"] += len(_temporary(bucket, places))

        finish(start(bucket.url, *options))
        assert read_set(bucket) == new
        assert _temporary(bucket, places) == []
        assert _unfinished(bucket) == 0
    print(type(bucket).__name__, dict(sorted(figures.items())))


def _prepare(bucket: Bucket, files: dict[str, bytes]) -> None:
    """Leave nothing but a published set of these files, or nothing at all."""
    report = bucket.get(REPORT)
    for name in bucket.names():
        bucket.remove(name)
    if not files:
        return
    for name, data in files.items():
        bucket.put(name, data)
    assert report is not None
    bucket.put(REPORT, listing(report, files))


def listing(report: bytes, files: dict[str, bytes]) -> bytes:
    """A report that lists these files."""
    import hashlib
    import json

    document = json.loads(report)
    document["published"]["files"] = [
        {"path": name, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in sorted(files.items())
    ]
    return json.dumps(document).encode()


def _until_it_publishes(process: subprocess.Popen[str], bucket: Bucket, is_there: bool) -> float:
    """Wait until a run has begun to change the place, or is over; the time then."""
    while (
        process.poll() is None
        and is_there == (bucket.get(REPORT) is not None)
        and (is_there or not _begun(bucket))
    ):
        time.sleep(0.0005)
    return time.monotonic()


def _begun(bucket: Bucket) -> bool:
    return bool(bucket.names() or _unfinished(bucket))


def _unfinished(bucket: Bucket) -> int:
    return len(bucket.server.unfinished()) if isinstance(bucket, S3Bucket) else 0


def _temporary(bucket: Bucket, places: Path) -> list[Path]:
    """Temporary folders of runs, in the system's place for them and in the store."""
    found = list(places.glob(".kpacktools-*.tmp"))
    if isinstance(bucket, FileBucket):
        for folder in (bucket.root, bucket.root.parent):
            found += folder.glob(".kpacktools-*.tmp")
    return found
