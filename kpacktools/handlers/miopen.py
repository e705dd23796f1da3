"""MIOpen: performance databases and models, and its Composable Kernel libraries.

``miopen/db/<t><CUs>.{kdb,model,db.txt,fdb.txt}``, where the number of compute units follows the processor without a
separator, in hexadecimal (``gfx90878`` is gfx908 with 120), or after an underscore in decimal (``gfx1030_36``): the
longest known processor wins. ``(lib)MIOpenCK*_<t>.{so,dll}`` anywhere (ROCm/rocm-libraries, MIOpen).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from kpacktools.hookspecs import Handler, hookimpl

if TYPE_CHECKING:
    from kpacktools.targets import TargetTable

__all__ = ["MiopenHandler"]

_REST: Final = re.compile(r"(?:_?[0-9a-f]+)?(?=[._]|$)")
_LIBRARY: Final = re.compile(r"(?:lib)?MIOpenCK.*_(gfx[0-9a-z]+(?:-strict)?)\.(?:so(?:\..*)?|dll)")
_WORD: Final = re.compile(r"gfx[0-9a-z]+")


class MiopenHandler(Handler):
    """Databases by file name, libraries by file name."""

    name = "miopen"
    engines = ("miopen",)
    containers = ("miopen/db",)
    file_names = ("libMIOpenCK*_gfx*.so", "libMIOpenCK*_gfx*.so.*", "MIOpenCK*_gfx*.dll")
    summary = "miopen/db/<target><CUs>.{kdb,model,db.txt,fdb.txt}, (lib)MIOpenCK*_<target>.{so,dll}"

    def target_of_file(self, path: str, targets: TargetTable) -> str | None:
        """The processor that a database's or library's name begins or ends with."""
        name = path.rpartition("/")[2]
        if library := _LIBRARY.fullmatch(name):
            return library[1]
        if not name.startswith("gfx"):
            return None
        for length in range(len(name), len("gfx"), -1):
            if name[:length] in targets.processors and _REST.match(name, length):
                return name[:length]
        word = _WORD.match(name)
        return word[0] if word else None


@hookimpl
def kpacktools_handlers() -> list[Handler]:
    """MIOpen's handler."""
    return [MiopenHandler()]
