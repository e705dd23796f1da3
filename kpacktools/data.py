"""Data files that ship with the package: ``topology/``, ``artifacts/``, the example shards, and the schemas.

In an installed wheel they sit inside the package (``kpacktools/_data``); in a checkout, and in an editable
install of one, at the top level of the repository.

Every run reads some, so that plain paths are tried before :mod:`importlib.resources`, which takes longer to import than
all of them to read.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Final

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["data_path", "load_table", "package_file"]

_PACKAGE: Final = os.path.dirname(os.path.abspath(__file__))
_ROOTS: Final = (os.path.join(_PACKAGE, "_data"), os.path.dirname(_PACKAGE))


def data_path(*parts: str) -> Path:
    """The path of a data file or folder, e.g. ``data_path("topology", "targets.toml")``.

    Raises :class:`FileNotFoundError` when the installation lacks it.
    """
    from pathlib import Path

    for root in _ROOTS:
        path = os.path.join(root, *parts)
        if os.path.exists(path):
            return Path(path)
    raise FileNotFoundError(f"kpacktools' data file {'/'.join(parts)} is missing from this installation")


def load_table(name: str) -> dict[str, Any]:
    """A TOML file of ``topology/``, e.g. ``load_table("targets.toml")``. Raises as :func:`package_file`."""
    for root in _ROOTS:
        try:
            with open(os.path.join(root, "topology", name), "rb") as stream:
                return tomllib.load(stream)
        except (FileNotFoundError, NotADirectoryError):
            continue
    return tomllib.loads(package_file("_data", "topology", name).decode())


def package_file(*parts: str) -> bytes:
    """A file inside the package, wherever that was imported from: ``package_file("manifests", "x.schema.json")``.

    Raises :class:`FileNotFoundError`.
    """
    try:
        with open(os.path.join(_PACKAGE, *parts), "rb") as stream:
            return stream.read()
    except NotADirectoryError:  # an archive
        from importlib import resources

        return resources.files("kpacktools").joinpath(*parts).read_bytes()
