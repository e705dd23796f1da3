"""The ``.sha256sum`` file beside an artifact archive.

Formats: the digest alone on one line, which is what TheRock's tools write and what is written here, and the
lines of coreutils' ``sha256sum``: the digest, two characters, a file's name.
"""

from __future__ import annotations

import os
import re
from typing import Final

from kpacktools.errors import CallError
from kpacktools.remote.urls import is_url

__all__ = ["CHECKSUM_SUFFIX", "LONGEST_CHECKSUM", "checksum_file", "digest_in", "read_checksum"]

CHECKSUM_SUFFIX: Final = ".sha256sum"

LONGEST_CHECKSUM: Final = 1 << 16
"""Bytes of the file that are read."""
_LINE: Final = re.compile(rb"([0-9A-Fa-f]{64})(?: [ *](.+))?")


def checksum_file(digest: str) -> bytes:
    """The content of the file for a digest in hexadecimal."""
    return f"{digest}\n".encode("ascii")


def read_checksum(archive: str) -> str | None:
    """The digest, in lower-case hexadecimal, that stands beside an archive; None where there is no such file.

    Raises :class:`ValueError`, which says why, where the file holds no digest of this archive, and
    :class:`~kpacktools.errors.CallError` where it cannot be read.
    """
    path = archive + CHECKSUM_SUFFIX
    try:
        with open(path, "rb") as stream:
            data = stream.read(LONGEST_CHECKSUM)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CallError(f"cannot read {path}: {error.strerror}") from error
    return digest_in(data, archive)


def digest_in(data: bytes, archive: str) -> str:
    """The digest of an archive in the content of a checksum file. Raises :class:`ValueError`, which says why, where it
    holds none."""
    name = archive.rpartition("/")[2] if is_url(archive) else os.path.basename(archive)
    own = os.fsencode(name)
    for line in data.split(b"\n"):
        match = _LINE.fullmatch(line.rstrip())
        if match is not None and (match[2] is None or match[2].rpartition(b"/")[2] == own):
            return match[1].decode("ascii").lower()
    raise ValueError(f"expected the sha256 of {name} in hexadecimal")
