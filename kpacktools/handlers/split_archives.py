"""The archives of host libraries whose device code was split off.

``.kpack/<name>_<component>_<target>.kpack`` beside the prefix's ``bin`` and ``lib``: one per target, written by
rocm_kpack's ``split_artifacts`` into the first stage prefix of the artifact (ROCm/rocm-systems, shared/kpack).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from kpacktools.hookspecs import Handler, hookimpl

if TYPE_CHECKING:
    from kpacktools.targets import TargetTable

__all__ = ["SplitArchivesHandler"]

_NAME: Final = re.compile(r"(?:.+_)?(gfx[^_]+(?:_[0-9]+)?)\.kpack")


class SplitArchivesHandler(Handler):
    """Archives by file name."""

    name = "kpack"
    engines = ("kpack",)
    containers = (".kpack",)
    summary = ".kpack/<name>_<component>_<target>.kpack"

    def target_of_file(self, path: str, targets: TargetTable) -> str | None:
        """What follows the component in the archive's name."""
        match = _NAME.fullmatch(path.rpartition("/")[2])
        return match[1] if match else None


@hookimpl
def kpacktools_handlers() -> list[Handler]:
    """The handler of split archives."""
    return [SplitArchivesHandler()]
