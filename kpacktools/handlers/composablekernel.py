"""Composable Kernel: static libraries of convolution instances, one per target.

``(lib)device_conv_operations_<t>.{a,lib}``, features spelled as CMake identifiers are: ``_strict``, ``_xnackp`` for
``:xnack+``, ``_sramecc_`` for ``:sramecc-`` (ROCm/composable_kernel).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from kpacktools.hookspecs import Handler, hookimpl

if TYPE_CHECKING:
    from kpacktools.targets import TargetTable

__all__ = ["ComposableKernelHandler"]

_NAME: Final = re.compile(
    r"(?:lib)?device_conv_operations_(gfx[0-9a-z]+)(_strict)?((?:_(?:sramecc|xnack)[p_])*)\.(?:a|lib)"
)
_FEATURE: Final = re.compile(r"_(sramecc|xnack)([p_])")


class ComposableKernelHandler(Handler):
    """Libraries by file name."""

    name = "composablekernel"
    engines = ("composablekernel",)
    file_names = ("*device_conv_operations_gfx*.a", "*device_conv_operations_gfx*.lib")
    summary = "(lib)device_conv_operations_<target>.{a,lib}"

    def target_of_file(self, path: str, targets: TargetTable) -> str | None:
        """The target that the library's name spells."""
        match = _NAME.fullmatch(path.rpartition("/")[2])
        if match is None:
            return None
        features = [f":{name}{'+' if sign == 'p' else '-'}" for name, sign in _FEATURE.findall(match[3])]
        return match[1] + ("-strict" if match[2] else "") + "".join(features)


@hookimpl
def kpacktools_handlers() -> list[Handler]:
    """Composable Kernel's handler."""
    return [ComposableKernelHandler()]
