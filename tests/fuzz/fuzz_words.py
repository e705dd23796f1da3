"""Short texts that names and options are made of: targets, sizes, patterns, versions, requirements, wheel names.

An input is lines of UTF-8.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from kpacktools.checks.coverage import Requirement
from kpacktools.errors import CallError
from kpacktools.hostfile import loader_targets
from kpacktools.patterns import matcher, matches, may_meet
from kpacktools.sizes import parse_size
from kpacktools.targets import TargetId, UnknownTargetError, default_targets, looks_like_target
from kpacktools.trees.archive import archive_stem
from kpacktools.trees.wheel import distribution_of

_PATHS = ("", "a", "a/b", "a/a/a/a/a/a/a/a/a/a/a/a/b", "a" * 50, "lib/x.so", "share/doc/\n")


def run(data: bytes) -> None:
    lines = data.decode(errors="surrogateescape").split("\n")
    for line in lines:
        _target(line)
        for read in (
            lambda text: parse_size("--max-size", text),
            lambda text: Requirement.parse(text, default_targets()),
            lambda text: default_targets().device(text),
        ):
            with suppress(CallError):
                read(line)
        archive_stem(line)
        distribution_of(line)
        for path in (*_PATHS, line):
            assert matcher([line])(path) == matches(line, path)
    left, right = lines[0], lines[-1]
    assert may_meet(left, right) == may_meet(right, left)
    for path in (*_PATHS, *lines):
        assert may_meet(left, right) or not (matches(left, path) and matches(right, path))


def _target(text: str) -> None:
    table = default_targets()
    looks_like_target(text)
    with suppress(UnknownTargetError):
        key = table.key(text)
        assert table.key(key.name) == key
        assert table.covers(key, key.name)
    try:
        target = TargetId.parse(text)
    except ValueError:
        return
    assert TargetId.parse(str(target)) == target
    assert target.agrees_with(target)
    assert loader_targets(text)[-1] == target.processor
    with suppress(UnknownTargetError):
        table.suffix_targets(text)


def seeds() -> Iterator[bytes]:
    for lines in (
        (
            "gfx942",
            "gfx942:sramecc+:xnack-",
            "gfx90a-xnack+",
            "gfx11",
            "gfx12_0",
            "gfx1250-strict",
            "gfx9-4-generic",
        ),
        ("family:gfx94X-dcgpu", "gfx1151-igpu", "generic"),
        ("100MB", "1.5GiB", "lib/rocke:gfx942"),
        ("lib/**/*.so", "**/lib/*.s?", "**/**/a*b*c/"),
        ("blas_lib_gfx942.tar.zst", "a-1.0-py3-none-any.whl"),
    ):
        yield "\n".join(lines).encode()
