"""Is everything there that a release has to hold? ``--require`` and what a policy requires."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from kpacktools.checks.bundles import CheckedBundle
from kpacktools.errors import CallError
from kpacktools.findings import Finding, finding
from kpacktools.plugins import Registry
from kpacktools.targets import TargetTable, UnknownTargetError

__all__ = ["Requirement", "required"]

ARCH_CONTENT: Final = "arch_content"


class Requirement(Struct, frozen=True):
    """One ``--require [COMPONENT/]ENGINE:KEY``."""

    engine: str
    key: str
    component: str | None = None

    @classmethod
    def parse(cls, text: str, targets: TargetTable) -> Requirement:
        """Read a requirement. Raises :class:`~kpacktools.errors.CallError`."""
        head, colon, key = text.partition(":")
        component, slash, engine = head.rpartition("/")
        if not (colon and engine and key) or (slash and not component):
            raise CallError(f"--require {text}: expected [COMPONENT/]ENGINE:KEY, such as rocke:gfx942")
        try:
            name = targets.key(key).name
        except UnknownTargetError as error:
            raise CallError(f"--require {text}: {error}") from None
        return cls(engine, name, component or None)

    def __str__(self) -> str:
        return (f"{self.component}/" if self.component else "") + f"{self.engine}:{self.key}"


def required(
    requirements: Iterable[Requirement], bundles: Sequence[CheckedBundle], registry: Registry
) -> list[Finding]:
    """``coverage-gap`` for every requirement that no bundle meets."""
    engines = {name: h.engine for h in registry.handlers for name in (h.name, *h.engines)}
    present = {
        (component, item.bundle.engine, key)
        for item in bundles
        if item.bundle.entries
        for component in (None, item.bundle.artifact.component)
        for key in (item.bundle.key.name, item.bundle.key.base)
    }
    # TheRock's word hipkernelprovider stands for all of arch_content, whatever engine the content is of.
    present |= {
        (component, ARCH_CONTENT, key)
        for item in bundles
        if item.bundle.entries and any(ARCH_CONTENT in root.split("/") for root in item.bundle.roots)
        for component in (None, item.bundle.artifact.component)
        for key in (item.bundle.key.name, item.bundle.key.base)
    }
    here: dict[str, set[str]] = {}
    for item in bundles:
        if item.bundle.entries:
            here.setdefault(item.bundle.engine, set()).add(item.bundle.key.name)
    return [
        finding(
            "coverage-gap",
            str(wanted),
            f"{wanted} is required and missing; {_what_is_here(engines.get(wanted.engine, wanted.engine), here)}",
            "find the shard that should hold it; was its build cut short?"
            if wanted.engine in engines
            else f"engines known here: {', '.join(sorted(set(engines.values())))}",
        )
        for wanted in requirements
        if (wanted.component, engines.get(wanted.engine, wanted.engine), wanted.key) not in present
    ]


def _what_is_here(engine: str, here: Mapping[str, set[str]]) -> str:
    """What there is of an engine, or else which engines there are."""
    if engine in here:
        return f"{engine} is here for {', '.join(sorted(here[engine]))}"
    return f"the engines here are {', '.join(sorted(here))}" if here else "nothing is here"
