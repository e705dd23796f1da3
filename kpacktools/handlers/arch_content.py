"""Content directly below ``arch_content``, in no engine's folder: ``arch_content/<t>/**``.

``hipkernelprovider`` is the word of TheRock's topology (``split_databases``) for all of arch_content.
"""

from __future__ import annotations

from kpacktools.hookspecs import Handler, hookimpl

__all__ = ["ArchContentHandler"]


class ArchContentHandler(Handler):
    """Folders by target."""

    name = "hipkernelprovider"
    containers = ("arch_content", "test_arch_content")
    summary = "arch_content/<target>/**; in a topology the word for all of arch_content"

    @property
    def engine(self) -> str:
        """What reports call it."""
        return "arch_content"


@hookimpl
def kpacktools_handlers() -> list[Handler]:
    """The handler of what lies directly below arch_content."""
    return [ArchContentHandler()]
