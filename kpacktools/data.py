"""Data files that ship with the package: ``topology/``, ``artifacts/`` and the example shards.

In an installed wheel they sit inside the package (``kpacktools/_data``); in a checkout, and in an editable
install of one, at the top level of the repository.
"""

from __future__ import annotations

import sys
from importlib import resources
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["data_path", "load_table"]


def data_path(*parts: str) -> Path:
    """The path of a data file or folder, e.g. ``data_path("topology", "targets.toml")``.

    Raises :class:`FileNotFoundError` when the installation lacks it.
    """
    package = Path(str(resources.files("kpacktools")))
    for root in (package / "_data", package.parent):
        path = root.joinpath(*parts)
        if path.exists():
            return path
    raise FileNotFoundError(f"kpacktools' data file {'/'.join(parts)} is missing from this installation")


def load_table(name: str) -> dict[str, Any]:
    """A TOML file of ``topology/``, e.g. ``load_table("targets.toml")``. Raises as :func:`data_path`."""
    with data_path("topology", name).open("rb") as stream:
        return tomllib.load(stream)
