"""One text file or object that ``-o`` names."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress

from kpacktools.errors import CallError
from kpacktools.remote.delivery import write_bytes
from kpacktools.remote.urls import is_url

__all__ = ["write_text"]


def write_text(path: str, text: str | Iterable[str]) -> None:
    """Write a file, or the object of a URL, from one text or from pieces, whole or not at all.

    Raises :class:`~kpacktools.errors.CallError` where that fails.
    """
    if is_url(path):
        write_bytes(path, "".join(text).encode())
        return
    temporary = f"{path}.kpacktools-{os.getpid()}.tmp"
    try:
        try:
            with open(temporary, "w", encoding="utf-8", newline="\n") as stream:
                stream.writelines([text] if isinstance(text, str) else text)
            os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise
    except OSError as error:
        raise CallError(f"-o {path}: {error.strerror}") from error
