"""A section of offload bundles, plain and compressed, one behind the other."""

from __future__ import annotations

from collections.abc import Iterator

from targets import say_one_line

import elfs
from kpacktools.offload import BundleError, bundles, entries


def run(data: bytes) -> None:
    end = 0
    try:
        for bundle in bundles(data):
            assert end <= bundle.offset
            assert bundle.size > 0
            end = bundle.offset + bundle.size
            assert end <= len(data)
            for entry in bundle.entries:
                assert isinstance(entry.kind, str)
                assert entry.target is None or entry.target
    except BundleError as error:
        say_one_line(error)
    else:
        list(entries(data))


def seeds() -> Iterator[bytes]:
    bundle = elfs.bundle(
        {elfs.HOST: b"", elfs.HIP + "gfx942:sramecc+:xnack-": b"code", elfs.HIP + "gfx9-4-generic": b"x"}
    )
    yield bundle
    yield bundle + bytes(100) + elfs.bundle({"hip-amdgcn-amd-amdhsa-gfx906": b""}) + bytes(8)
    for version in (1, 2, 3):
        for method in (0, 1):
            yield elfs.compressed(bundle, version, method)
    yield elfs.compressed(bundle) + bytes(8) + elfs.compressed(bundle, 3, 0)
    yield bytes(64)
