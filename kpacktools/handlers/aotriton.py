"""AOTriton: kernel images by family.

``aotriton.images/amd-<t>/**``; some folders are families in AOTriton's own spelling (ROCm/aotriton,
v3python/gpu_targets.py).
"""

from __future__ import annotations

from typing import Final

from kpacktools.hookspecs import Handler, hookimpl

__all__ = ["AotritonHandler"]

FAMILIES: Final = {"gfx11xx": "gfx11", "gfx120x": "gfx12_0"}
"""AOTriton's name of a family -> the bundle key."""
_PREFIX: Final = "amd-"


class AotritonHandler(Handler):
    """Folders of images."""

    name = "aotriton"
    engines = ("aotriton",)
    containers = ("aotriton.images",)
    summary = "aotriton.images/amd-<target>/**; gfx11xx is gfx11, gfx120x is gfx12_0"

    def target_of(self, folder: str) -> str:
        """The folder without AOTriton's vendor prefix, families as bundle keys."""
        target = folder.removeprefix(_PREFIX)
        return FAMILIES.get(target, target)


@hookimpl
def kpacktools_handlers() -> list[Handler]:
    """AOTriton's handler."""
    return [AotritonHandler()]
