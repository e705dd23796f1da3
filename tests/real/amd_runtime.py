"""AMD's own kpack runtime, as a referee: what it sees in an archive, and which code object it picks.

x86-64 Linux only; no GPU is needed. The library comes out of a public wheel that ships it beside the host
libraries that it serves.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import platform
import sys
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath

import pytest
from real_wheels import fetch, once

WHEEL = "vapoursynth-dfttest2-hip==11.1.0"
_LIBRARIES = ("librocm_kpack", "librocm_sysdeps_zstd")
_KERNEL_NOT_FOUND = 5


class RuntimeRefusal(Exception):
    """The runtime returned an error: 3 wrong magic or offset, 4 version, 9 short file, 10 bad TOC, ..."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def list_kernels(path: Path) -> list[tuple[str, str, int, str]]:
    """Every kernel that the runtime hands out: key, target, bytes, sha256; sorted.

    It lists the targets of ``gfx_arches`` only. Raises :class:`RuntimeRefusal`.
    """
    library = _library()
    archive = ctypes.c_void_p()
    _check(library.kpack_open(str(path).encode(), ctypes.byref(archive)))
    try:
        targets = _names(archive, library.kpack_get_architecture_count, library.kpack_get_architecture)
        keys = _names(archive, library.kpack_get_binary_count, library.kpack_get_binary)
        found = [(key, target, _kernel(archive, key, target)) for key in keys for target in targets]
    finally:
        library.kpack_close(archive)
    return sorted(
        (key.decode(), target.decode(), len(data), hashlib.sha256(data).hexdigest())
        for key, target, data in found
        if data is not None
    )


def load(binary: Path, marker: bytes, index: int, targets: Sequence[str]) -> bytes:
    """The code object that the runtime loads for a host binary (which it does not open) on such a device.

    ``marker`` is what its ``.rocm_kpack_ref`` holds; of ``targets`` the first that has the kernel counts.
    Raises :class:`RuntimeRefusal`, with code 13 where there is no archive.
    """
    library = _library()
    cache, data, size = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t()
    names = (ctypes.c_char_p * len(targets))(*map(str.encode, targets))
    # It is not told the marker's size, and takes it for 64 KiB at most.
    metadata = ctypes.create_string_buffer(marker, 64 << 10)
    _check(library.kpack_cache_create(ctypes.byref(cache)))
    try:
        place = (str(binary).encode(), ctypes.c_uint32(index), names, ctypes.c_size_t(len(targets)))
        _check(
            library.kpack_load_code_object(cache, metadata, *place, ctypes.byref(data), ctypes.byref(size))
        )
        try:
            return ctypes.string_at(data.value or 0, size.value)
        finally:
            library.kpack_free_code_object(data)
    finally:
        library.kpack_cache_destroy(cache)


def _kernel(archive: ctypes.c_void_p, key: bytes, target: bytes) -> bytes | None:
    library = _library()
    data, size = ctypes.c_void_p(), ctypes.c_size_t()
    code = library.kpack_get_kernel(archive, key, target, ctypes.byref(data), ctypes.byref(size))
    if code == _KERNEL_NOT_FOUND:
        return None
    _check(code)
    try:
        return ctypes.string_at(data.value or 0, size.value)
    finally:
        library.kpack_free_kernel(data)


def _names(archive: ctypes.c_void_p, count: Callable[..., int], get: Callable[..., int]) -> list[bytes]:
    number, name = ctypes.c_size_t(), ctypes.c_char_p()
    _check(count(archive, ctypes.byref(number)))
    names = []
    for index in range(number.value):
        _check(get(archive, ctypes.c_size_t(index), ctypes.byref(name)))
        names.append(name.value or b"")
    return names


def _check(code: int) -> None:
    if code != 0:
        raise RuntimeRefusal(code)


@functools.cache
def _library() -> ctypes.CDLL:
    if sys.platform != "linux" or platform.machine() != "x86_64":
        pytest.skip("AMD's runtime is for x86-64 Linux")
    folder = once(f"{WHEEL}-libraries", _extract)
    try:
        library = ctypes.CDLL(str(next(folder.glob("librocm_kpack*"))))
    except OSError as error:
        pytest.skip(f"AMD's runtime cannot be loaded here: {error}")
    library.kpack_free_kernel.restype = None
    library.kpack_close.restype = None
    library.kpack_free_code_object.restype = None
    library.kpack_cache_destroy.restype = None
    return library


def _extract(folder: Path) -> None:
    with zipfile.ZipFile(fetch(WHEEL)) as wheel:
        for name in wheel.namelist():
            file = PurePosixPath(name).name
            if file.startswith(_LIBRARIES):
                (folder / file).write_bytes(wheel.read(name))
