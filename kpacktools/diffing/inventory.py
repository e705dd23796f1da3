"""What a set holds: for each engine and target its kernels by content, its size, lanes and compilers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct, field

from kpacktools.checks.bundles import CheckedBundle
from kpacktools.checks.generic import check_generic
from kpacktools.checks.kernels import LOOSE, Collector
from kpacktools.checks.run import check_bundles
from kpacktools.checks.standalone import check_archive
from kpacktools.commands import Run, start_run
from kpacktools.diffing.records import name_of_record, record
from kpacktools.findings import Finding, Severity
from kpacktools.hookspecs import Bundle, Depth, Handler
from kpacktools.pipeline import OPAQUE_HANDLER, Checks, Settings
from kpacktools.planning.claims import OPAQUE, bundles_of
from kpacktools.trees import is_file
from kpacktools.trees.places import shown
from kpacktools.trees.shards import Prefix

__all__ = ["Holding", "Inventory", "take_inventory"]

_LEAVES_OUT: Final = frozenset(
    (
        "archive-invalid",
        "device-code-in-generic",
        "double-claim",
        "kpack-corrupt",
        "kpack-unsupported",
        "unclaimed-target-content",
        "unknown-target",
    )
)
"""Findings that tell of content which is in no holding, or not as a whole: a comparison would be blind to it."""


class Holding(Struct, frozen=True):
    """What a set holds of one engine for one target key, built on one compiler lane."""

    engine: str
    key: str
    lane: str | None
    """Declared, else measured; None where nothing says, or the code objects disagree."""
    kernels: int
    files: int
    size: int
    """Bytes of all files, as stored."""
    compilers: Mapping[str, int] = field(default_factory=dict)
    """Compiler (else linker) that code objects name -> how many."""
    records: frozenset[bytes] | None = None
    """The kernels (:mod:`kpacktools.diffing.records`), each once; None where they were not read."""


class Inventory(Struct, frozen=True):
    """Everything that a set holds, sorted by engine, key and lane."""

    paths: tuple[str, ...]
    holdings: tuple[Holding, ...]
    findings: tuple[Finding, ...] = ()
    """Errors that keep content out of the holdings, under the policy's severities."""

    by_content: bool = True
    """Every kernel was read, and holdings have records."""


def take_inventory(
    command: str, paths: Sequence[str], settings: Settings, prefix: Prefix = Prefix()
) -> tuple[Inventory, Run]:
    """Read whatever ``inspect`` takes as deep as ``settings`` say, at depth content down to the kernels.

    Returns the run too, whose inputs are open. Raises :class:`~kpacktools.errors.CallError` for a path that is
    unusable.
    """
    run = start_run(command, paths, settings, prefix, any_depth=True)
    records: dict[Bundle, set[bytes]] = {}

    def collect(bundle: Bundle, path: str, key: str | None, target: str, digest: bytes) -> None:
        records.setdefault(bundle, set()).add(record(_name(bundle, path, key, target), digest))

    checks = _read(run, collect)
    unread = _unread_files(checks.bundles, records)
    is_deep = settings.depth >= Depth.CONTENT
    found = tuple(
        item
        for item in run.report(checks).findings
        if item.severity is Severity.ERROR
        and (
            item.name in _LEAVES_OUT
            or (is_deep and item.name == "codeobject-invalid" and item.path in unread)
        )
    )
    return Inventory(
        tuple(map(shown, paths)), _holdings(checks.bundles, records if is_deep else None), found, is_deep
    ), run


def _name(bundle: Bundle, path: str, key: str | None, target: str) -> str:
    """A TOC key, with its target where that is not the bundle's; a loose file's path below its target folder."""
    if key is not None:
        return key if target == bundle.key.name else f"{key} ({target})"
    roots = [f"{root}/" for root in bundle.roots if root and path.startswith(f"{root}/")]
    return path.removeprefix(max(roots, key=len, default=""))


def _read(run: Run, collect: Collector) -> Checks:
    """Claim and read everything; what checking finds is kept for what it says of content that is left out."""
    settings = run.settings
    found: list[Finding] = []
    bundles: list[Bundle] = []
    alone: list[CheckedBundle] = []
    for item in run.inputs:
        found += item.shard.findings
        for claimed in item.artifacts:
            artifact = claimed.artifact
            if artifact.is_file:
                more, problems = check_archive(
                    item.shard, artifact, settings.depth, run.targets, collect, settings.cache
                )
                alone += more
                found += problems
                continue
            found += claimed.findings
            bundles += bundles_of(claimed, item.shard.name)
            neutral = settings.policy.neutral_rule(artifact.name, artifact.component) is not None
            if not (neutral or claimed.is_wheel):
                found += check_generic(claimed, settings.depth)

    def handler_of(bundle: Bundle) -> Handler:
        return OPAQUE_HANDLER if bundle.handler == OPAQUE else run.registry.by_name(bundle.handler).handler

    size = sum(entry.size for bundle in bundles for entry in bundle.entries)
    settings.progress.start("reading", files=len(bundles), size=size)
    checked, _ = check_bundles(
        bundles, handler_of, settings.depth, run.targets, settings.jobs, settings.progress, collect,
        settings.cache, settings.dispatch, settings.log,
    )  # fmt: skip
    found += (problem for result in checked for problem in result.findings)
    return Checks((*checked, *alone), tuple(found))


def _unread_files(bundles: Iterable[CheckedBundle], records: Mapping[Bundle, set[bytes]]) -> set[str]:
    """Paths of loose code objects that nobody could read."""
    unread: set[str] = set()
    for item in bundles:
        if all(problem.name != "codeobject-invalid" for problem in item.findings):
            continue
        bundle = item.bundle
        read = {name_of_record(kernel) for kernel in records.get(bundle, ())}
        unread.update(
            bundle.artifact.where(entry.path)
            for entry in bundle.files(*LOOSE)
            if is_file(entry) and _name(bundle, entry.path, None, "") not in read
        )
    return unread


def _holdings(
    bundles: Iterable[CheckedBundle], records: Mapping[Bundle, set[bytes]] | None
) -> tuple[Holding, ...]:
    groups: dict[tuple[str, str, str | None], list[CheckedBundle]] = {}
    for item in bundles:
        groups.setdefault((item.bundle.engine, item.bundle.key.name, item.lane_name), []).append(item)
    holdings = []
    for engine, key, lane in sorted(groups, key=lambda group: (*group[:2], group[2] or "")):
        items = groups[engine, key, lane]
        compilers: Counter[str] = Counter()
        for item in items:
            compilers.update(item.compilers)
        # Components, shards and wheels may hold copies of one another: a kernel counts once.
        held = None if records is None else frozenset().union(*(records.get(i.bundle, ()) for i in items))
        holdings.append(
            Holding(
                engine=engine,
                key=key,
                lane=lane,
                kernels=sum(item.kernels for item in items) if held is None else len(held),
                files=sum(len(item.bundle.entries) for item in items),
                size=sum(item.size for item in items),
                compilers=dict(compilers),
                records=held,
            )
        )
    return tuple(holdings)
