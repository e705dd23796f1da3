"""Finding plugins, ordering and isolating them.

Built-in handlers are modules in a plain tuple and come in through the same hook as a third party's. One broken
plugin must not take the tool down: it becomes a ``plugin-invalid`` finding that names its distribution.
``KPACKTOOLS_TRACE_PLUGINS=1`` prints every hook call to stderr.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Any, Final

import pluggy
from msgspec import Struct

from kpacktools import hookspecs
from kpacktools.findings import Finding, Severity, finding
from kpacktools.hookspecs import PROJECT, Handler

if TYPE_CHECKING:
    from importlib import metadata

__all__ = ["BUILTIN", "ENTRY_POINT_GROUP", "Registered", "Registry", "load_registry"]

ENTRY_POINT_GROUP: Final = "kpacktools"

BUILTIN: Final = (
    "kpacktools.handlers.aiter",
    "kpacktools.handlers.aot_catalog",
    "kpacktools.handlers.aotriton",
    "kpacktools.handlers.arch_content",
    "kpacktools.handlers.asm",
    "kpacktools.handlers.composablekernel",
    "kpacktools.handlers.hip_kernel_provider",
    "kpacktools.handlers.hotswap_cache",
    "kpacktools.handlers.miopen",
    "kpacktools.handlers.rocke",
    "kpacktools.handlers.split_archives",
    "kpacktools.handlers.tensile",
)


class Registered(Struct, frozen=True):
    """A handler and where it comes from."""

    handler: Handler
    distribution: str
    """Name and version of the distribution, ``kpacktools 0.1.0`` for a built-in one."""
    module: str


class Registry(Struct, frozen=True):
    """The handlers of one run, sorted by name, and what was wrong with plugins."""

    registered: tuple[Registered, ...]
    findings: tuple[Finding, ...] = ()
    broken: tuple[tuple[str, Finding], ...] = ()
    """Entry-point name and finding of plugins that could not be loaded: an error only where an engine of that
    name is present."""

    @property
    def handlers(self) -> tuple[Handler, ...]:
        """The handlers alone."""
        return tuple(item.handler for item in self.registered)

    def by_name(self, name: str) -> Registered:
        """The handler of a name; raises :class:`KeyError`."""
        for item in self.registered:
            if item.handler.name == name:
                return item
        raise KeyError(name)


def load_registry(entry_points: Iterable[metadata.EntryPoint] | None = None) -> Registry:
    """Load built-in and installed handlers.

    ``entry_points`` replaces the installed ones in tests.
    """
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(hookspecs)
    if os.environ.get("KPACKTOOLS_TRACE_PLUGINS", "") not in ("", "0"):
        manager.trace.root.setwriter(lambda line: sys.stderr.write(line))
        manager.enable_tracing()
    origin: dict[str, str] = {}
    broken: list[tuple[str, Finding]] = []
    for module in BUILTIN:
        manager.register(importlib.import_module(module), name=module)
        origin[module] = _own_name()
    found = _installed() if entry_points is None else entry_points
    for entry_point in sorted(found, key=lambda e: (e.name, e.value)):
        distribution = _distribution(entry_point)
        name = f"{entry_point.name} ({distribution})"
        try:
            manager.register(entry_point.load(), name=name)
        except Exception as error:  # noqa: BLE001 - foreign code may raise anything while it is imported
            broken.append((entry_point.name, _invalid(name, f"cannot be loaded: {_one_line(error)}")))
            continue
        origin[name] = distribution
    return _collect(manager, origin, broken)


def _installed() -> Iterable[metadata.EntryPoint]:
    """The entry points of the distributions that are installed."""
    if not _may_have_plugins():
        return ()
    from importlib import metadata  # with what it needs an eighth of a small run

    return metadata.entry_points(group=ENTRY_POINT_GROUP)


def _may_have_plugins() -> bool:
    """False only where no distribution can have an entry point for us.

    Looks for our group where distributions are described in folders on ``sys.path`` (the Entry points specification
    of the PyPA); wherever they may be found in another way the answer is True.
    """
    if any(hasattr(finder, "find_distributions") and finder is not PathFinder for finder in sys.meta_path):
        return True
    group = f"[{ENTRY_POINT_GROUP}]".encode()
    for folder in sys.path:
        try:
            with os.scandir(folder or ".") as listing:
                names = [child.name for child in listing]
        except FileNotFoundError:
            continue
        except OSError:
            return True  # an archive, or a folder that importlib may be able to read
        if folder.endswith(".egg") or any(name.endswith(".egg") for name in names):
            return True
        for name in names:
            if not name.endswith((".dist-info", ".egg-info")):
                continue
            try:
                with open(os.path.join(folder, name, "entry_points.txt"), "rb") as stream:
                    if group in stream.read().replace(b" ", b""):
                        return True
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError:
                return True
    return False


def _collect(
    manager: pluggy.PluginManager, origin: dict[str, str], broken: list[tuple[str, Finding]]
) -> Registry:
    registered: dict[str, Registered] = {}
    findings: list[Finding] = []
    # One plugin at a time rather than one hook call for all: an exception then names its plugin.
    for name in origin:
        others = [plugin for other, plugin in manager.list_name_plugin() if other != name and plugin]
        caller = manager.subset_hook_caller("kpacktools_handlers", others)
        try:
            answers: list[Any] = [handler for answer in caller() for handler in answer]
        except Exception as error:  # noqa: BLE001 - foreign code
            broken.append(
                (name.split(" ")[0], _invalid(name, f"kpacktools_handlers raised {_one_line(error)}"))
            )
            continue
        for handler in answers:
            problem = _contract_problem(handler)
            if problem:
                broken.append((name.split(" ")[0], _invalid(name, problem)))
                continue
            item = Registered(handler, origin[name], type(handler).__module__)
            other = registered.setdefault(handler.name, item)
            if other is not item:
                findings.append(
                    finding(
                        "plugin-invalid",
                        handler.name,
                        f"two distributions provide a handler named {handler.name!r}: "
                        f"{other.distribution} and {item.distribution}; the first is used",
                        "uninstall one of them",
                        sources=(other.distribution, item.distribution),
                    )
                )
    ordered = tuple(registered[name] for name in sorted(registered))
    return Registry(ordered, tuple(findings), tuple(broken))


def _contract_problem(handler: object) -> str:
    if not isinstance(handler, Handler):
        return f"provides {type(handler).__name__}, which is no kpacktools.hookspecs.Handler"
    if not isinstance(getattr(handler, "name", None), str) or not handler.name:
        return f"provides {type(handler).__name__} without a name"
    if not (handler.engines or handler.containers or handler.file_names):
        return f"provides {handler.name!r}, which names no engine, container or file and so claims nothing"
    return ""


def _own_name() -> str:
    from kpacktools import __version__

    return f"{PROJECT} {__version__}"


def _distribution(entry_point: metadata.EntryPoint) -> str:
    dist = entry_point.dist
    return f"{dist.name} {dist.version}" if dist is not None else entry_point.value


def _invalid(name: str, problem: str) -> Finding:
    return finding(
        "plugin-invalid",
        name,
        f"plugin {name} {problem}",
        "update or uninstall its distribution",
        severity=Severity.WARNING,
    )


def _one_line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
