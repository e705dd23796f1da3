"""One text file that ``-o`` names."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress

from kpacktools.errors import CallError

__all__ = ["write_text"]


def write_text(path: str, text: str | Iterable[str]) -> None:
    """Write a file, from one text or from pieces, whole or not at all.

    Raises :class:`~kpacktools.errors.CallError` where that fails.
    """
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
