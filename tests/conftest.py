"""Fixtures of all tests. Its folder is on ``sys.path``: ``builders`` is importable everywhere below."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from builders import Build
from kpacktools.hookspecs import Depth
from kpacktools.pipeline import Settings

_SHELL = (
    "KPACKTOOLS_MAX_RATIO",
    "KPACKTOOLS_MAX_UNPACKED",
    "KPACKTOOLS_TRACE_PLUGINS",
    "NO_COLOR",
    "ROCM_SDK_WHEEL_PLATFORM_TAG",
    "SOURCE_DATE_EPOCH",
)


@pytest.fixture
def build(tmp_path: Path) -> Callable[..., Build]:
    """Makes a shard: ``build("gfx942")`` is a per-architecture build for gfx942."""

    def make(name: str, key: str | None = None) -> Build:
        return Build(tmp_path / "in" / name, key or name)

    return make


@pytest.fixture
def settings() -> Settings:
    return Settings(depth=Depth.TOC, jobs=2)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The processes that were forked."""
    numbers: list[int] = []
    fork = os.fork

    def noted() -> int:
        process = fork()
        numbers.append(process)
        return process

    monkeypatch.setattr(os, "fork", noted)
    return numbers


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a developer's shell sets must not change a test."""
    for name in _SHELL:
        monkeypatch.delenv(name, raising=False)
