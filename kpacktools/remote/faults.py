"""What goes wrong with a request: told apart by whether asking again may help, and asked again where it may."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Final, Literal, TypeVar

from msgspec import Struct

from kpacktools.errors import CallError

__all__ = ["RETRIES", "RefusedError", "Retries", "TransientError", "persistently"]

T = TypeVar("T")

Reason = Literal["missing", "forbidden", "changed", "no-ranges", "unable", "other"]


class TransientError(Exception):
    """A request failed in a way that may pass: a time-out, a connection that was cut, a server that is busy.

    ``str(error)`` is what the server or the system said; ``after`` are the seconds that the server asks to wait.
    """

    def __init__(self, message: str, after: float = 0.0) -> None:
        super().__init__(message)
        self.after = after


class RefusedError(Exception):
    """A request failed, and would fail again."""

    def __init__(self, message: str, reason: Reason = "other") -> None:
        super().__init__(message)
        self.reason = reason


class Retries(Struct, frozen=True):
    """How often and how long a request is tried."""

    tries: int = 6
    first: float = 0.5
    """Seconds before the second try; doubled for each further one, and each time varied by half."""
    longest: float = 30.0


RETRIES: Final = Retries()
"""Six tries over 8 to 23 seconds, unless the server asks for more."""


def persistently(request: Callable[[], T], what: str, retries: Retries = RETRIES) -> T:
    """Run a request until it succeeds, is refused, or has been tried often enough.

    ``what`` begins the message: ``cannot read s3://bucket/x``. Raises :class:`~kpacktools.errors.CallError` where
    tries are used up, and :class:`RefusedError` as it comes.
    """
    for attempt in range(1, retries.tries + 1):
        try:
            return request()
        except TransientError as error:
            if attempt == retries.tries:
                raise CallError(f"{what}: {error} (tried {attempt} times)") from error
            pause = min(retries.first * 2 ** (attempt - 1), retries.longest)
            _sleep(min(max(pause * random.uniform(0.5, 1.5), error.after), 2 * retries.longest))
    raise AssertionError("a request is tried at least once")


def _sleep(seconds: float) -> None:
    time.sleep(seconds)
