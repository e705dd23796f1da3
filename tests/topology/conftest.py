"""Fixtures of the topology's tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from topology_files import Checkout


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)
