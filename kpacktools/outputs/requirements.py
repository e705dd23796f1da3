"""What wheels require of each other (packaging.python.org, "Dependency specifiers").

The parser of these takes longer to import than a small wheel to write, and the pins of a set need none.
"""

from __future__ import annotations

import re
from typing import Final

from packaging.utils import NormalizedName, canonicalize_name

__all__ = ["normal_requirement", "required_name"]

_RELEASE: Final = r"[0-9]+(?:\.[0-9]+)"
_PIN: Final = re.compile(
    r"(?P<name>[a-z0-9]+(?:-[a-z0-9]+)*)"
    rf"(?:==(?:[0-9]+!)?{_RELEASE}*(?:(?:a|b|rc)[0-9]+)?(?:\.post[0-9]+)?(?:\.dev[0-9]+)?"
    r"(?:\+[a-z0-9]+(?:\.[a-z0-9]+)*)?"
    rf"|~={_RELEASE}+)"
)
"""A normal name and one version, in normal form, that is asked for exactly or as a compatible release."""


def normal_requirement(text: str) -> str:
    """A requirement in its usual spelling. Raises :class:`ValueError` for text that is none.

    >>> normal_requirement("rocm-sdk-core==7.15.0")
    'rocm-sdk-core==7.15.0'
    >>> normal_requirement("numpy>=1.26,<3")
    'numpy<3,>=1.26'
    """
    if _PIN.fullmatch(text):
        return text
    from packaging.requirements import Requirement

    return str(Requirement(text))


def required_name(text: str) -> NormalizedName:
    """The distribution that a requirement asks for. Raises :class:`ValueError` for text that is no requirement."""
    pin = _PIN.fullmatch(text)
    if pin is not None:
        return canonicalize_name(pin["name"])
    from packaging.requirements import Requirement

    return canonicalize_name(Requirement(text).name)
