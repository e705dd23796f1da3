"""Compiler lanes: which compiler majors are qualified, and which of them emit the same dialect.

Data: ``topology/compiler-lanes.toml``. A *lane* is a qualified compiler major (``llvm24``); its *emission profile*
is the IR dialect that it shares with others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

from msgspec import Struct

from kpacktools.data import load_table
from kpacktools.findings import Finding, Severity, finding

__all__ = ["BundleLane", "Lane", "LaneRules", "LaneTable", "check_lanes", "default_lanes"]


class Lane(Struct, frozen=True):
    """One qualified lane."""

    name: str
    majors: frozenset[int]
    profile: str


class LaneTable(Struct, frozen=True):
    """All qualified lanes, oldest first."""

    lanes: tuple[Lane, ...]

    def by_name(self, name: str) -> Lane | None:
        """The lane of a name, None for one that is not qualified."""
        return next((lane for lane in self.lanes if lane.name == name), None)

    def by_major(self, major: int) -> Lane | None:
        """The lane of a compiler major; a newer one than the newest lane's is none of them."""
        return next((lane for lane in self.lanes if major in lane.majors), None)

    @property
    def newest_major(self) -> int:
        """The newest qualified major."""
        return max(major for lane in self.lanes for major in lane.majors)

    def above(self, first: str, second: str) -> bool:
        """True where lane ``first`` is newer than lane ``second``; both must be known."""
        order = [lane.name for lane in self.lanes]
        return order.index(first) > order.index(second)

    @property
    def names(self) -> str:
        """The lanes' names for messages."""
        return ", ".join(lane.name for lane in self.lanes)


@lru_cache(maxsize=1)
def default_lanes() -> LaneTable:
    """The lanes that ship with the package."""
    data = load_table("compiler-lanes.toml")["lanes"]
    lanes = [Lane(name, frozenset(item["majors"]), item["profile"]) for name, item in data.items()]
    return LaneTable(tuple(sorted(lanes, key=lambda lane: min(lane.majors))))


class BundleLane(Struct, frozen=True):
    """What one bundle says about its lane, and what its code objects say."""

    engine: str
    key: str
    path: str
    declared: str | None
    """The lane of the manifest; None where nothing declares one."""
    is_default: bool
    """The declaration is what a packer writes when nobody tells it: the measured lane counts."""
    majors: Mapping[int, int]
    """Compiler major -> code objects that name it. Empty where none was read, or none says."""
    ops: frozenset[str] = frozenset()

    @property
    def judged(self) -> bool:
        """True where a lane is declared: content that declares none is reported and not judged."""
        return self.declared is not None


class LaneRules(Struct, frozen=True):
    """What a policy declares about lanes."""

    default: str | None = None
    """The lane that every key is on, but for those in ``keys``."""
    keys: Mapping[str, str] | None = None
    """Key -> its lane."""
    mixes: tuple[frozenset[str], ...] = ()
    """Sets of lanes that may stand side by side."""
    admits: Mapping[str, Mapping[str, tuple[str, ...]]] | None = None
    """Consumer -> op -> lanes that it takes."""

    def declared(self, key: str) -> str | None:
        """The lane that the policy says a key is on."""
        return (self.keys or {}).get(key, self.default)


def effective_lanes(bundle: BundleLane, table: LaneTable) -> set[str]:
    """The lanes that a bundle is on: declared, or measured where the declaration is a packer's default."""
    measured = {lane.name for major in bundle.majors if (lane := table.by_major(major))}
    if bundle.declared is None or bundle.is_default:
        return measured
    return {bundle.declared} if table.by_name(bundle.declared) else set()


def check_lanes(bundles: Iterable[BundleLane], table: LaneTable, rules: LaneRules) -> Iterator[Finding]:
    """``lane-unknown``, ``lane-mismatch``, ``lane-mixed`` and ``lane-not-admitted``."""
    by_engine: dict[str, list[BundleLane]] = {}
    for bundle in bundles:
        if not bundle.judged:
            continue
        by_engine.setdefault(bundle.engine, []).append(bundle)
        yield from _check_one(bundle, table)
        yield from _check_admitted(bundle, table, rules)
    for engine, group in sorted(by_engine.items()):
        yield from _check_mix(engine, group, table, rules)


def _check_one(bundle: BundleLane, table: LaneTable) -> Iterator[Finding]:
    assert bundle.declared is not None
    lane = table.by_name(bundle.declared)
    if lane is None:
        yield finding(
            "lane-unknown",
            bundle.path,
            f"declares the lane {bundle.declared!r}, which is not qualified; qualified: {table.names}",
            "qualify it in topology/compiler-lanes.toml, or build with a qualified compiler",
        )
    for major, count in sorted(bundle.majors.items()):
        if major > table.newest_major:
            yield finding(
                "lane-unknown",
                bundle.path,
                f"{count} of its code objects were built by LLVM {major}, newer than the newest qualified "
                f"major {table.newest_major}",
                "qualify it in topology/compiler-lanes.toml, or build with a qualified compiler",
            )
        elif lane is not None and not bundle.is_default and major not in lane.majors:
            yield finding(
                "lane-mismatch",
                bundle.path,
                f"declares {bundle.declared}, and {count} of its code objects were built by LLVM {major}",
                "find out which compiler built them; the consumer would read them in the wrong dialect",
            )


def _check_admitted(bundle: BundleLane, table: LaneTable, rules: LaneRules) -> Iterator[Finding]:
    lanes = effective_lanes(bundle, table)
    for consumer, ops in sorted((rules.admits or {}).items()):
        for op in sorted(bundle.ops & set(ops)):
            refused = sorted(lanes - set(ops[op]))
            if refused:
                yield finding(
                    "lane-not-admitted",
                    bundle.path,
                    f"the op {op!r} is built on {', '.join(refused)}; {consumer} admits {', '.join(ops[op])}",
                    "build the op on a lane that its consumer admits; it would be refused at run time without a word",
                )


def _check_mix(engine: str, group: list[BundleLane], table: LaneTable, rules: LaneRules) -> Iterator[Finding]:
    on: dict[str, list[BundleLane]] = {}
    for bundle in group:
        for name in sorted(effective_lanes(bundle, table)):
            if rules.declared(bundle.key) != name:
                on.setdefault(name, []).append(bundle)
    if rules.default is not None or rules.keys:
        # A policy that says who is on which lane makes everything else a deviation.
        for name, bundles in sorted(on.items()):
            for bundle in bundles:
                wanted = rules.declared(bundle.key)
                if wanted is not None:
                    yield finding(
                        "lane-mixed",
                        bundle.path,
                        f"{bundle.key} is on {name}; the policy says {wanted}",
                        "build it on that lane, or change [lanes] in the policy",
                    )
        return
    if len(on) < 2 or any(set(on) <= mix for mix in rules.mixes):
        return
    profiles = {lane.profile for name in on if (lane := table.by_name(name))}
    words = "; ".join(
        f"{name}: {', '.join(sorted({b.key for b in bundles}))}" for name, bundles in sorted(on.items())
    )
    one = len(profiles) == 1
    yield finding(
        "lane-mixed",
        engine,
        f"{engine} is built on {len(on)} lanes {'of one profile' if one else f'of {len(profiles)} profiles'} ({words})",
        "build all targets on one lane, or declare the mix under [lanes] in the policy",
        sources=sorted({bundle.path for bundles in on.values() for bundle in bundles}),
        severity=Severity.WARNING if one else Severity.ERROR,
    )
