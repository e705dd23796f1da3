"""rocjitsu's translation cache: code translated ahead of time for one stepping of a processor.

``share/rocjitsu/translations/<domain>/v1/<64 hex>.{man,obj}``; the domain names a processor and the steppings that
it translates between, ``gfx1250-b0-a0`` (ROCm/TheRock, rocjitsu-hotswap).
"""

from __future__ import annotations

import re
from typing import Final

from kpacktools.hookspecs import Handler, hookimpl

__all__ = ["HotswapCacheHandler"]

_DOMAIN: Final = re.compile(r"(gfx[0-9a-z]+)-[a-z][0-9]-[a-z][0-9]")


class HotswapCacheHandler(Handler):
    """Folders of translations."""

    name = "hotswap_cache"
    engines = ("hotswap_cache",)
    containers = ("share/rocjitsu/translations",)
    summary = "share/rocjitsu/translations/<domain>/**; gfx1250-b0-a0 is gfx1250"

    def target_of(self, folder: str) -> str:
        """The processor of a domain."""
        match = _DOMAIN.fullmatch(folder)
        return match[1] if match else folder


@hookimpl
def kpacktools_handlers() -> list[Handler]:
    """The translation cache's handler."""
    return [HotswapCacheHandler()]
