"""The beginnings of small files, read with few calls and without waiting for anything."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kpacktools.trees import read_start
from kpacktools.trees.directory import scan_directory


@pytest.mark.parametrize(("limit", "expected"), [(0, b""), (3, b"abc"), (6, b"abcdef"), (99, b"abcdef")])
def test_at_most_as_much_as_was_asked_for_is_read(tmp_path: Path, limit: int, expected: bytes) -> None:
    (tmp_path / "a").write_bytes(b"abcdef")
    assert read_start(scan_directory(str(tmp_path)), "a", limit) == expected


def test_a_file_that_is_gone_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_start(scan_directory(str(tmp_path)), "a", 1)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFOs here")
def test_a_fifo_in_a_files_place_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a")
    with pytest.raises(OSError, match="no regular file"):
        read_start(scan_directory(str(tmp_path)), "a", 1)
