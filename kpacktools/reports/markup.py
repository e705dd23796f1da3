"""HTML elements as values: every string that is put into one is escaped, so that none can be forgotten.

>>> str(el("td", "a < b", el("br"), title='"'))
'<td title="&quot;">a &lt; b<br></td>'
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

from kpacktools.reports.plaintext import clean

__all__ = ["Markup", "el", "json_script"]

_VOID: Final = frozenset(("br", "input"))


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


Child = str | int | None | Iterable["Child"]
"""Strings are escaped, :class:`Markup` is not; None is nothing; what is nested is flattened."""


def el(name: str, *children: Child, **attributes: str | int | bool | None) -> Markup:
    """One element. ``class_`` gives ``class`` and ``data_x`` gives ``data-x``; None and False give no attribute."""
    written = "".join(_attribute(key, value) for key, value in attributes.items())
    body = "".join(_flat(children))
    return Markup(f"<{name}{written}>{body}" + ("" if name in _VOID else f"</{name}>"))


def json_script(identifier: str, value: Any) -> Markup:
    """A data block that scripts read: JSON in ASCII in which nothing can end the element."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(f'<script type="application/json" id="{html.escape(identifier)}">{text}</script>')


def _attribute(key: str, value: str | int | bool | None) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{_escaped(str(value))}"'


def _flat(children: Iterable[Child]) -> Iterator[str]:
    for child in children:
        if isinstance(child, Markup):
            yield child
        elif isinstance(child, (str, int)):
            yield _escaped(str(child))
        elif child is not None:
            yield from _flat(child)


def _escaped(text: str) -> str:
    return html.escape(clean(text))
