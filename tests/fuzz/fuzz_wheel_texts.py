"""What a wheel says of itself (file name, METADATA, WHEEL, RECORD), in a ZIP file that is always right.

An input is these four, with NUL NUL between them.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import fuzz_wheel
from fuzz_wheel import DIST_INFO, METADATA, NAME, PAYLOAD, WHEEL
from targets import changed_bytes

_BETWEEN = b"\0\0"
_WORDS = (
    b"Requires-Dist: a[b]==1.*; python_version < '3'", b"Requires-Dist: x @ file:///x", b"Version: 1+a.b-c", b"Name: ",
    b"Dynamic: x", b"Tag: py2.py3-none-any", b"Tag: a.b.c.d-a.b.c.d-a.b.c.d", b"Tag: x", b"Build: 7",
    b"License-Expression: MIT AND", b"Classifier: x", b"Project-URL: x", b",sha256=,", b",md5=x,1", b'"a', b"\r",
    b"Metadata-Version: 9", b"\xff", b"Keywords: a,b", b"Description-Content-Type: text/x; charset=",
    b"Provides-Extra: -", b"License-File: ../x",
)  # fmt: skip


def run(data: bytes) -> None:
    name, metadata, wheel, record = (data.split(_BETWEEN, 3) + [b""] * 4)[:4]
    text = "".join(c for c in name.decode("ascii", "ignore") if c.isprintable() and c != "/")[:100]
    files = {
        **PAYLOAD,
        f"{DIST_INFO}/METADATA": metadata,
        f"{DIST_INFO}/WHEEL": wheel,
        f"{DIST_INFO}/RECORD": record,
    }
    fuzz_wheel.run(fuzz_wheel.packed(files, 0), text.removesuffix(".whl") + ".whl")


def seeds() -> Iterator[bytes]:
    files = {**PAYLOAD, f"{DIST_INFO}/METADATA": METADATA, f"{DIST_INFO}/WHEEL": WHEEL}
    record = fuzz_wheel.record(files)
    more = METADATA.replace(
        b"\n\n", b"\n" + b"\n".join(word for word in _WORDS if b": " in word) + b"\n\n", 1
    )
    for parts in ((NAME.encode(), METADATA, WHEEL, record), (b"x-1-1-py3-none-any.whl", more, WHEEL, record)):
        yield _BETWEEN.join(parts)


def change(data: bytes, random: Random) -> bytes:
    parts = data.split(_BETWEEN, 3)
    number = random.randrange(len(parts))
    lines = parts[number].split(b"\n")
    place = random.randrange(len(lines))
    if random.random() < 0.5:
        lines[place] = changed_bytes(lines[place], random)
    else:
        lines.insert(place, random.choice((*lines, *_WORDS)))
    parts[number] = b"\n".join(lines)
    return _BETWEEN.join(parts)
