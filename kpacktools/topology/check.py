"""``kpacktools topology check`` as a function: a topology, and what it is compared with, in; a report out."""

from __future__ import annotations

from collections.abc import Iterable

from kpacktools.descriptors.checking import starved_components
from kpacktools.descriptors.discovery import find_descriptors, parse_map
from kpacktools.descriptors.model import Descriptor, read_descriptor
from kpacktools.findings import Finding
from kpacktools.pipeline import Settings, claim, conclude, open_inputs
from kpacktools.plugins import Registry, load_registry
from kpacktools.reports.model import Report
from kpacktools.topology.agreement import check_descriptors, check_provided, check_types
from kpacktools.topology.content import check_content
from kpacktools.topology.model import Topology, read_topology
from kpacktools.topology.rules import check_handlers, check_topology

__all__ = ["check"]


def check(
    path: str,
    settings: Settings,
    *,
    descriptors: str | None = None,
    mapped: Iterable[str] = (),
    tree: str | None = None,
) -> Report:
    """Check a topology by itself, against the descriptors in a folder, and against a release.

    ``mapped`` are the values of ``--map``; ``tree`` is a folder of artifact directories, as merge writes it.

    Raises :class:`~kpacktools.errors.CallError` for a path that is unusable.
    """
    registry = load_registry()
    topology, findings = read_topology(path)
    found = [*registry.findings, *findings]
    if topology is not None:
        found += check_topology(topology)
        found += check_handlers(topology, {handler.name for handler in registry.handlers})
        if descriptors is not None:
            found += _against_descriptors(topology, registry, descriptors, mapped)
        if tree is not None:
            targets = settings.policy.targets()
            settings.progress.start(f"scanning {tree}")
            inputs = claim(open_inputs([tree], targets), registry, targets, settings.policy)
            found += (f for item in inputs for f in item.shard.findings)
            found += check_content(topology, inputs, tree)
    return conclude(Report("topology check", tuple(found)), settings)


def _against_descriptors(
    topology: Topology, registry: Registry, folder: str, mapped: Iterable[str]
) -> list[Finding]:
    maps = parse_map(mapped)
    found = find_descriptors(folder, maps)
    read: list[Descriptor] = []
    findings: list[Finding] = []
    for path in found.files:
        # A descriptor that nothing says the artifact of is still one.
        for artifact in found.artifacts[path] or ("unknown",):
            descriptor, more = read_descriptor(path, artifact)
            findings += more
            if descriptor is not None:
                findings += starved_components(descriptor)
                read.append(descriptor)
    findings += check_descriptors(topology, found, maps)
    findings += check_provided(topology, found.provided, read)
    findings += check_types(topology, read, registry.handlers)
    return findings
