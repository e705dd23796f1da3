"""A plugin for tests whose worker processes die once, by SIGKILL, in the midst of a task.

``KPACKTOOLS_TEST_KILL`` names a file that the process makes which is to die: only one can. ``check`` in its name has it
die while it checks a bundle of the engine ``killer``, ``folder`` after a few files of an output, ``wheel`` in the
midst of the bytes of a wheel.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from pathlib import Path
from typing import Any

from kpacktools.hookspecs import Bundle, Checked, Content, Handler, hookimpl
from kpacktools.outputs import transfer, zipwriter

_FILES = 2


def _die(where: str) -> None:
    """Kill this process, where it is a worker, and the first to come here."""
    mark = os.environ.get("KPACKTOOLS_TEST_KILL", "")
    if where not in Path(mark).name or multiprocessing.parent_process() is None:
        return
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


class KillerHandler(Handler):
    name = "killer"
    engines = ("killer",)
    summary = "arch_content/killer/<target>/**"

    def check(self, bundle: Bundle, content: Content) -> Checked:
        _die("check")
        return Checked()


def _mortal(function: Any, where: str, after: int) -> Any:
    calls = 0

    def call(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        result = function(*arguments, **named)
        calls += 1
        if calls == after:
            _die(where)
        return result

    return call


transfer.put_file = _mortal(transfer.put_file, "folder", _FILES)
zipwriter.ZipWriter.append = _mortal(zipwriter.ZipWriter.append, "wheel", 1)  # type: ignore[method-assign]


@hookimpl
def kpacktools_handlers() -> list[Handler]:
    return [KillerHandler()]
