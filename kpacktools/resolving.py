"""Resolving: what the runtime would look for on a device, in its order, what it finds, and why not.

The answer to "a kernel that I expected is not selected".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from kpacktools.checks.bundles import CheckedBundle
from kpacktools.checks.markers import Archives, HostFile, find_hosts, lookups
from kpacktools.commands import start_run
from kpacktools.errors import CallError
from kpacktools.findings import Finding, Severity, counted
from kpacktools.hostfile import expand
from kpacktools.pipeline import Settings
from kpacktools.planning.selection import Input
from kpacktools.policy import load_policy
from kpacktools.targets import TargetKey, UnknownTargetError
from kpacktools.trees.shards import Prefix

__all__ = ["Attempt", "Resolution", "resolve", "resolve_engine", "resolve_hosts"]


class Attempt(Struct, frozen=True):
    """One place that the runtime looks at."""

    looks_for: str
    """A target key, or an archive's installed path."""
    found: str | None
    """Where it is; None where it is not."""
    kernels: int = 0
    note: str = ""


class Resolution(Struct, frozen=True):
    """What comes of looking for one engine's content, or one host library's kernels, on a device."""

    what: str
    target: str
    attempts: tuple[Attempt, ...]
    taken: Attempt | None
    reasons: tuple[str, ...] = ()
    """Why nothing was found, or what is wrong with what was."""

    def as_mapping(self) -> dict[str, Any]:
        """JSON-ready values."""
        return {
            "what": self.what,
            "target": self.target,
            "attempts": [
                {"looks_for": a.looks_for, "found": a.found, "kernels": a.kernels, "note": a.note}
                for a in self.attempts
            ],
            "taken": None if self.taken is None else self.taken.looks_for,
            "reasons": list(self.reasons),
        }


def resolve(root: str, engine: str, target: str, policy: str | None = None) -> list[Resolution]:
    """What the runtime would look for on a device; of every host library with a marker for the engine ``kpack``.

    Raises :class:`~kpacktools.errors.CallError` for a path, target or engine that is unusable.
    """
    settings = Settings(policy=load_policy(policy))
    run = start_run("resolve", [root], settings, Prefix(), any_depth=True)
    try:
        key = run.targets.key(target)
    except UnknownTargetError as error:
        raise CallError(f"--target {target}: {error}") from None
    names = {name: h.engine for h in run.registry.handlers for name in (h.name, *h.engines)}
    wanted = names.get(engine, engine)
    if wanted == "kpack":
        hosts = [host for item in run.inputs for c in item.artifacts for host in find_hosts(c)]
        found = resolve_hosts(hosts, run.inputs, key)
        if found:
            return found
    checks = run.check()
    if wanted not in {*names.values(), *(item.bundle.engine for item in checks.bundles)}:
        raise CallError(f"--engine {engine}: no such engine; known: {', '.join(sorted(set(names.values())))}")
    return [resolve_engine(wanted, key, checks.bundles, checks.findings)]


def resolve_engine(
    engine: str, key: TargetKey, bundles: Sequence[CheckedBundle], findings: Sequence[Finding]
) -> Resolution:
    """Look for an engine's content by target ID, most specific first, as the kpack loader does."""
    mine = [item for item in bundles if item.bundle.engine == engine]
    attempts = []
    taken: Attempt | None = None
    for name in expand("@GFXARCH@", key.name):
        for item in (b for b in mine if b.bundle.key.name == name):
            attempt = Attempt(name, item.bundle.path, item.kernels, _contents(item))
            attempts.append(attempt)
            taken = taken or (attempt if item.bundle.entries else None)
        if not any(attempt.looks_for == name for attempt in attempts):
            attempts.append(Attempt(name, None))
    reasons = []
    if taken is None:
        held = sorted({item.bundle.key for item in mine})
        if not mine:
            engines = sorted({item.bundle.engine for item in bundles})
            reasons.append(
                f"no content of {engine} is here at all; engines here: {', '.join(engines) or 'none'}"
            )
        else:
            reasons.append(f"{engine} is here for {', '.join(map(str, held))}")
            near = [k for k in held if k.base == key.base]
            if near:
                reasons.append(f"{', '.join(map(str, near))} contradicts the features of {key}")
    reasons += [
        f"{found.name}: {found.path}: {found.message}"
        for found in findings
        if found.severity is not Severity.INFO and _concerns(found, engine, mine)
    ]
    return Resolution(engine, key.name, tuple(attempts), taken, tuple(dict.fromkeys(reasons)))


def _contents(item: CheckedBundle) -> str:
    archives = ", ".join(kpack.path.rpartition("/")[2] for kpack in item.kpacks)
    return archives or counted(len(item.bundle.entries), "file")


def _concerns(found: Finding, engine: str, mine: Sequence[CheckedBundle]) -> bool:
    folders = {engine.replace("_", "-"), engine.replace("-", "_")}
    return bool(folders & set(found.path.split("/"))) or any(found in item.findings for item in mine)


def resolve_hosts(hosts: Sequence[HostFile], inputs: Sequence[Input], key: TargetKey) -> list[Resolution]:
    """Look for the archives of every host library that has a marker."""
    archives = Archives(inputs)
    out = []
    for host in hosts:
        for marker in host.binary.markers:
            attempts = []
            taken = None
            for path in lookups(host, marker, key.name):
                lacks = archives.lacks(path, host, marker)
                note = f"lacks {', '.join(lacks[:3])}" if lacks else ""
                attempt = Attempt(path, None if lacks is None else path, 0, note)
                attempts.append(attempt)
                if lacks == () and taken is None:
                    taken = attempt
            reasons = () if taken else (f"no archive holds {marker.kernel_name} for {key}",)
            out.append(Resolution(host.where, key.name, tuple(attempts), taken, reasons))
    return out
