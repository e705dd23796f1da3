"""Assembly kernels: ``asm_kernels/<t>/**`` and, packed, ``asm_kernels/kpack/*_<t>.kpack``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kpacktools.hookspecs import Handler, hookimpl

if TYPE_CHECKING:
    from kpacktools.targets import TargetTable

__all__ = ["AsmHandler"]


class AsmHandler(Handler):
    """Folders by target, archives by file name."""

    name = "asm"
    engines = ("asm",)
    containers = ("asm_kernels",)
    summary = "asm_kernels/<target>/** and asm_kernels/kpack/*_<target>.kpack"

    def target_of_file(self, path: str, targets: TargetTable) -> str | None:
        """The last word of an archive's name."""
        folder, _, name = path.rpartition("/")
        stem, _, target = name.removesuffix(".kpack").rpartition("_")
        is_archive = folder.rpartition("/")[2] == "kpack" and name.endswith(".kpack")
        return target if is_archive and stem and target.startswith("gfx") else None


@hookimpl
def kpacktools_handlers() -> list[Handler]:
    """The assembly kernels' handler."""
    return [AsmHandler()]
