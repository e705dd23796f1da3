"""Hostile versions of anything: strategies that take what is true and change one thing in it."""

from __future__ import annotations

import gzip
import json
import struct
from typing import Any, Final

import msgspec
from hypothesis import strategies as st

__all__ = ["damaged_bytes", "damaged_content", "damaged_document", "names"]

_DEEP: Final = 3000
_WORDS: Final = (
    "", " ", "\0", "\x1b[2J\x1b[31m", "a\nb", "\u202egfx942", "\ud800", "<script>alert(1)</script>", "%s{0}{}",
    "..", "../../../etc/passwd", "/etc/passwd", "C:\\x", "\\\\host\\share", "gfx17z", "gfx942:xnack+:xnack-",
    "file:///x", "x" * 70_000, "9" * 5000, "NaN", "llvm99", "llvm" + "9" * 400, "99.0", "1." + "9" * 5000, "²",
    "gfx²", "gfx1100", "\N{ARABIC-INDIC DIGIT ONE}.0", "v1", "sha256",
)  # fmt: skip
_NUMBERS: Final = (
    0, -1, 1, 2**31, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, -(2**63), 10**400, 0.5, -0.0, 1e308,
    float("inf"), float("nan"),
)  # fmt: skip
_FILES: Final = (
    b"", b"\0", b"\0" * 4096, b"\xff" * 300, b"\xef\xbb\xbf{}", b"{}", b"[]", b"null", b"NaN", b"1e999", b'"x"',
    b"9" * 5000, b"[" * 100_000, b'{"a":' * 20_000, b'{"a":1,"a":2}', b"\x81" * 5000, b"a,b\r\n\"", b"\r\r\n,,\0,",
    b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 12345\n",
    b"KPAK", b"KPAK\1\0\0\0" + b"\xff" * 56, b"\x7fELF", b"\x7fELF\2\1\1\x40" + b"\xff" * 56,
    b"PK\5\6" + b"\xff" * 18, b"\x28\xb5\x2f\xfd" + b"\xff" * 20, b"\x1f\x8b\x08" + b"\xff" * 20, b"\xfd7zXZ\0",
    b"CCOB" + b"\xff" * 28, b"__CLANG_OFFLOAD_BUNDLE__" + b"\xff" * 8,
)  # fmt: skip


def names() -> st.SearchStrategy[bytes]:
    """File names that a POSIX file system takes and nobody wants."""
    odd = (
        b"\x1b[2J", b"a\nb", b"\xff\xfe", b" ", b"-rf", b"CON", b"a:b?", b"x" * 255, b"\xe2\x80\xae", b"\\", b"..\\x",
        b"gfx17z", b"gfx942:xnack+", b"arch_content", b"<script>.kpack", b"artifact_manifest.txt", b".kpacktools-1.tmp",
        b"a_b_c_d", b"x_lib_gfx942", b"k.co", b"x.kpack", b"x.json", b"x-1.0-py3-none-any.whl", b"x_lib_gfx942.tar.zst",
        b"x.kdp.json", b"x.sidecar.json", b"family.json", b"libMIOpenCK_gfx\xb2.so", b"\xd9\xa1.co",
    )  # fmt: skip
    return st.sampled_from(odd) | st.binary(min_size=1, max_size=20).map(
        lambda raw: raw.replace(b"/", b"_").replace(b"\0", b"_").lstrip(b".") or b"_"
    )


@st.composite
def damaged_bytes(draw: st.DrawFn, data: bytes) -> bytes:
    """Bytes with a piece cut, changed, repeated or replaced; or something else altogether."""
    start = draw(st.integers(0, max(0, len(data) - 1)))
    length = draw(st.integers(0, 64))
    piece = draw(
        st.binary(max_size=16) | st.sampled_from((b"\xff" * 8, b"\0" * 8, struct.pack("<Q", 1 << 62)))
    )
    return draw(
        st.sampled_from(
            (
                data[:start],
                data[start:],
                data[:start] + piece + data[start + len(piece) :],
                data[:start] + piece + data[start:],
                data[:start] + data[start + length :],
                data + data,
            )
        )
        | st.sampled_from(_FILES)
    )


@st.composite
def damaged_document(draw: st.DrawFn, document: Any) -> Any:
    """A document of JSON's or MessagePack's kinds in which one value or key is another."""
    if isinstance(document, (dict, list)) and document and draw(st.integers(0, 4)):
        place = draw(st.sampled_from(list(document) if isinstance(document, dict) else range(len(document))))
        changed = document.copy()
        action = draw(st.sampled_from(("inside", "inside", "inside", "drop", "name", "repeat")))
        if action == "inside":
            changed[place] = draw(damaged_document(document[place]))
        elif action == "drop":
            del changed[place]
        elif isinstance(changed, dict):
            changed[draw(st.sampled_from(_WORDS))] = document[place]
        else:
            changed.append(document[place])
        return changed
    return draw(st.sampled_from(_WORDS) | st.sampled_from(_NUMBERS) | _odd_values(document))


def _odd_values(document: Any) -> st.SearchStrategy[Any]:
    deep: Any = []
    for _ in range(_DEEP // 10):
        deep = [deep]
    return st.sampled_from(
        (None, True, [], {}, [None], [[]], {"": {}}, [document], {"x": document}, ["x"] * 5000, deep)
    )


@st.composite
def damaged_content(draw: st.DrawFn, path: str, data: bytes) -> bytes:
    """A file's content, damaged as its format allows, so that a reader comes as far as possible."""
    if draw(st.integers(0, 2)) == 0:
        return draw(damaged_bytes(data))
    if path.endswith(".json"):
        return json.dumps(draw(damaged_document(json.loads(data)))).encode()
    if path.endswith(".json.gz"):
        inner = json.dumps(draw(damaged_document(json.loads(gzip.decompress(data))))).encode()
        return gzip.compress(inner, mtime=0)
    if path.endswith(".kpack"):
        return _kpack(data, draw(damaged_document(msgspec.msgpack.decode(data[_toc(data) :]))))
    return draw(damaged_bytes(data))


def _toc(kpack: bytes) -> int:
    return int(struct.unpack_from("<Q", kpack, 8)[0])


def _kpack(kpack: bytes, toc: Any) -> bytes:
    try:
        packed = msgspec.msgpack.encode(toc)
    except (OverflowError, UnicodeEncodeError, TypeError):  # what MessagePack does not hold
        packed = b"\xc1"
    return kpack[: _toc(kpack)] + packed
