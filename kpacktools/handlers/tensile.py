"""rocBLAS, hipBLASLt, hipSPARSELt: Tensile's kernel libraries.

``<lib>/library/<t>/**``, or flat ``.co``, ``.hsaco`` and ``.dat`` files with the target in the name
(``TensileLibrary_gfx942.dat``, ``Kernels.so-000-gfx90a-xnack-.hsaco``). Flat files without a target are generic.
Source: ROCm/rocm-libraries, Tensile and TensileLite; ROCm/TheRock, split_databases.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from kpacktools.hookspecs import Handler, hookimpl

if TYPE_CHECKING:
    from kpacktools.targets import TargetTable

__all__ = ["TensileHandler"]

# The target as one word of the name: between separators, features included.
_WORD: Final = re.compile(
    r"(?:^|[_.-])(gfx[0-9][0-9a-z]*(?:-strict|-generic|-[0-9]+-generic)?(?:[-:](?:sramecc|xnack)[+-])*)(?=[_.-]|$)"
)


class TensileHandler(Handler):
    """One library whose kernels Tensile made."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.engines = (name,)
        self.containers = (f"{name}/library",)
        self.summary = f"{name}/library/<target>/**, and {name}/library/*<target>*.{{co,hsaco,dat}}"

    def target_of_file(self, path: str, targets: TargetTable) -> str | None:
        """The last word of the file's name that looks like a target."""
        words = _WORD.findall(path.rpartition("/")[2])
        return words[-1] if words else None


@hookimpl
def kpacktools_handlers() -> list[Handler]:
    """One handler a library."""
    return [TensileHandler(name) for name in ("rocblas", "hipblaslt", "hipsparselt")]
