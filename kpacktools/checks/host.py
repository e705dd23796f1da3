"""Checks of the host side: what device content can do to the libraries that load it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from kpacktools.findings import Finding, finding
from kpacktools.planning.layouts import below_prefix
from kpacktools.planning.selection import Input

__all__ = ["shadowed_plugins"]

ENGINES: Final = "engines"
"""hipDNN's folder of engine plugins."""


def shadowed_plugins(inputs: Sequence[Input]) -> Iterator[Finding]:
    """``plugin-shadowed``: hipDNN resolves an engine plugin by name, and a folder of the plugin's base name hides
    the library. Looked up in the union of all inputs: the folder may come with another part than the library."""
    plugins: dict[tuple[str, str], str] = {}
    folders: dict[tuple[str, str], str] = {}
    for item in inputs:
        for claimed in item.artifacts:
            artifact = claimed.artifact
            for folder, entries in artifact.tree.folders.items():
                parent, _, name = folder.rpartition("/")
                if parent.rpartition("/")[2] == ENGINES:
                    folders.setdefault((below_prefix(artifact, parent), name), artifact.where(folder))
                if name != ENGINES:
                    continue
                place = below_prefix(artifact, folder)
                for entry in entries:
                    base = _plugin_name(entry.path.rpartition("/")[2])
                    if base is not None:
                        plugins.setdefault((place, base), artifact.where(entry.path))
    for plugin, library in sorted(plugins.items()):
        if plugin in folders:
            yield finding(
                "plugin-shadowed",
                library,
                f"the folder {folders[plugin]} hides the plugin: hipDNN looks for {plugin[1]!r} and finds the folder",
                "rename the folder; content by target belongs under arch_content/<engine>/<target>/",
                sources=(library, folders[plugin]),
            )


def _plugin_name(name: str) -> str | None:
    stem, dot, suffix = name.partition(".so")
    if dot and (not suffix or suffix.startswith(".")):
        return stem.removeprefix("lib")
    return name.removesuffix(".dll") if name.endswith(".dll") else None
