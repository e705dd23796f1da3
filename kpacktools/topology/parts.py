"""What a release must hold by its topology: which engines' content, in which artifacts, for which targets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from kpacktools.errors import CallError
from kpacktools.hookspecs import Handler
from kpacktools.targets import TargetTable, UnknownTargetError
from kpacktools.topology.model import Artifact, Topology
from kpacktools.topology.rules import near_hint

__all__ = ["RequiredPart", "required_parts", "requirements", "target_keys"]

_SPLIT_OFF: Final = "kpack"
"""The engine of artifacts that name no handler: archives that rocm_kpack split off their host files."""


class RequiredPart(NamedTuple):
    """One engine's content for one target in one artifact."""

    artifact: str
    engine: str
    key: str

    @property
    def requirement(self) -> str:
        """The value of ``kpacktools inspect --require`` that asks for it."""
        return f"{self.engine}:{self.key}"


def required_parts(
    topology: Topology, keys: Sequence[str], handlers: Iterable[Handler], platform: str | None = None
) -> tuple[RequiredPart, ...]:
    """What a release for some targets must hold, artifact by artifact in the order of the topology.

    A target-specific artifact must hold content of each engine whose handler its ``split_databases`` name, and of
    ``kpack`` where they name none. ``platform`` leaves out artifacts that are not built there.

    Raises :class:`~kpacktools.errors.CallError` for a handler that nobody knows.
    """
    engines = {handler.name: handler.engine for handler in handlers}
    return tuple(
        RequiredPart(artifact.name, engine, key)
        for artifact in topology.artifacts.values()
        if artifact.target_specific and (platform is None or artifact.is_built_for(platform))
        for engine in _engines(topology, artifact, engines)
        for key in keys
    )


def _engines(topology: Topology, artifact: Artifact, engines: Mapping[str, str]) -> tuple[str, ...]:
    for name in artifact.split_databases:
        if name not in engines:
            raise CallError(
                f"{topology.path}: artifacts.{artifact.name}.split_databases names {name!r}, and there is no such "
                f"handler{near_hint(name, engines)}"
            )
    return tuple(dict.fromkeys(engines[name] for name in artifact.split_databases)) or (_SPLIT_OFF,)


def requirements(parts: Iterable[RequiredPart]) -> tuple[str, ...]:
    """The ``--require`` values of some parts, each once: ``--require`` does not ask in which artifact."""
    return tuple(dict.fromkeys(part.requirement for part in parts))


def target_keys(texts: Iterable[str], targets: TargetTable) -> tuple[str, ...]:
    """The part keys that ``--target`` values name: a target or bundle key, or the processors of ``family:NAME``.

    Raises :class:`~kpacktools.errors.CallError` for a target or family that nobody knows.
    """
    keys: dict[str, None] = {}
    for text in texts:
        family = text.removeprefix("family:")
        if family != text:
            name = targets.aliases.get(family, family)
            members = targets.bundles.get(name) or targets.build_family(family)
            if members is None:
                known = (*targets.bundles, *targets.build_families)
                raise CallError(f"--target {text}: unknown family {family!r}{near_hint(family, known)}")
            keys |= dict.fromkeys(member for member in members if member not in targets.owners)
            continue
        try:
            keys[targets.key(text).base] = None
        except UnknownTargetError as error:
            spelled = f"; a family is spelled family:{text}" if targets.build_family(text) is not None else ""
            raise CallError(f"--target {text}: {error}{spelled}") from None
    return tuple(keys)
