"""The KPAK container: an archive of GPU code objects, each under a TOC key and a target.

This package re-exports what reads a table of contents; :mod:`kpacktools.kpack.reader` (kernels) and
:mod:`kpacktools.kpack.writer` are imported by those who need them, as they pull in zstandard.

>>> import io
>>> from kpacktools.kpack import read_toc
>>> from kpacktools.kpack.writer import KpackWriter
>>> file = io.BytesIO()
>>> with KpackWriter(file, group_name="demo", gfx_arch_family="gfx942") as writer:
...     writer.add("lib/libdemo.so#0", "gfx942", b"code object")
>>> toc = read_toc(file, size=len(file.getvalue()))
>>> toc.targets(), toc.count()
({'gfx942'}, 1)
"""

from __future__ import annotations

from kpacktools.kpack.format import KpackError
from kpacktools.kpack.toc import Blob, Kernel, Toc, TocEntry, read_toc

__all__ = ["Blob", "Kernel", "KpackError", "Toc", "TocEntry", "read_toc"]
