"""Errors that end a command.

Two kinds of trouble are kept apart throughout: what is wrong with the *content* is a
:class:`kpacktools.findings.Finding` (data; exit status 1), what is wrong with the *call* or with the machine
is an exception from this module (exit status 2, one line on stderr).
"""

from __future__ import annotations

__all__ = ["CallError"]


class CallError(Exception):
    """The call, the configuration or a path is unusable; the command ends with exit status 2.

    ``str(error)`` is one line that says what was expected, what was found and what to do.
    """

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))
