"""Targets: target IDs, target keys, families and who packages what.

Grammar and terms are LLVM's (User Guide for AMDGPU Backend, "Target ID"): a processor, then features in
alphabetical order, ``gfx942:sramecc+:xnack-``. File and folder names write ``-`` for ``:``. Families come from
the PyPI package rocm-bootstrap; ``topology/targets.toml`` adds what it lacks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, lru_cache
from typing import Any, Final

from msgspec import Struct

from kpacktools.data import load_table
from kpacktools.errors import CallError

__all__ = [
    "GENERIC",
    "DeviceFilter",
    "TargetId",
    "TargetKey",
    "TargetTable",
    "UnknownTargetError",
    "default_targets",
    "looks_like_target",
]

GENERIC: Final = "generic"
"""The key of the part that belongs to no target."""

_GENERIC_PROCESSOR = r"gfx[0-9]+(?:-[0-9]+)?-generic"
_PROCESSOR = r"gfx[0-9][0-9a-f]*[a-z]?"
_FEATURE = r"(?:sramecc|xnack)[+-]"
_TARGET_ID = re.compile(rf"({_GENERIC_PROCESSOR}|{_PROCESSOR}(?:-strict)?)((?:[:-]{_FEATURE})*)")
# Wider than the grammar on purpose: what a person would read as a target must not pass as a plain folder.
# An underscore makes a name (gfx942_tiled_attention), except in bundle keys (gfx12_0).
_LOOKS_LIKE = re.compile(r"gfx[0-9][0-9a-z]*(?:_[0-9]+)?(?:[:+-].*)?", re.IGNORECASE)


def looks_like_target(name: str) -> bool:
    """True where a person would read a whole path component as a target or bundle key.

    >>> looks_like_target("gfx17z"), looks_like_target("gfx942_tiled_attention")
    (True, False)
    """
    return _LOOKS_LIKE.fullmatch(name) is not None


class TargetId(Struct, frozen=True, order=True):
    """A processor (with its ``-strict`` variant, where it has one) and its features, sorted by name."""

    processor: str
    features: tuple[str, ...] = ()
    """Such as ``("sramecc+", "xnack-")``."""

    @classmethod
    def parse(cls, text: str) -> TargetId:
        """Read ``gfx942:xnack+`` or the file-name spelling ``gfx942-xnack+``.

        Raises :class:`ValueError` where the text does not follow the grammar or names a feature twice.
        """
        match = _TARGET_ID.fullmatch(text)
        if match is None:
            raise ValueError(f"not a target ID: {text!r}")
        features = sorted(re.findall(_FEATURE, match[2]))
        if len({feature[:-1] for feature in features}) != len(features):
            raise ValueError(f"a feature is named twice in target ID {text!r}")
        return cls(match[1], tuple(features))

    def __str__(self) -> str:
        return ":".join((self.processor, *self.features))

    def agrees_with(self, other: TargetId) -> bool:
        """True where both can name the same device: same processor, no feature that contradicts."""
        if self.processor != other.processor:
            return False
        mine = {feature[:-1]: feature[-1] for feature in self.features}
        return all(mine.get(feature[:-1], feature[-1]) == feature[-1] for feature in other.features)


class TargetKey(Struct, frozen=True, order=True):
    """What a folder, artifact directory or wheel is keyed by, in its canonical spelling."""

    name: str
    """``gfx942``, ``gfx90a:xnack-``, ``gfx1250-strict``, ``gfx11``, ``gfx12_0`` or ``gfx11-generic``."""
    base: str
    """The key without features: the part that content of this key goes to."""
    owner: str
    """The key whose wheel carries it."""
    is_bundle: bool = False

    def __str__(self) -> str:
        return self.name


class UnknownTargetError(ValueError):
    """A target or bundle key that nobody knows."""

    def __init__(self, name: str, search: Callable[[str], tuple[str, ...]]) -> None:
        super().__init__(name, search)
        self.name = name
        self._search = search

    @cached_property
    def near(self) -> tuple[str, ...]:
        """Known keys with similar names, best first. Only looked for when it is asked for: that takes a millisecond,
        and a hostile archive may hold very many unknown names."""
        return self._search(self.name)

    def __str__(self) -> str:
        return f"unknown target {self.name!r}" + (f"; near: {', '.join(self.near)}" if self.near else "")


class TargetTable(Struct, frozen=True, dict=True):
    """Every processor, bundle, alias and package owner that a run knows. Immutable."""

    processors: frozenset[str]
    bundles: Mapping[str, tuple[str, ...]]
    """Bundle key -> its processors. Families and sub-families."""
    parents: Mapping[str, tuple[str, ...]]
    """Processor or sub-family -> bundle keys that contain it, nearest first."""
    aliases: Mapping[str, str]
    build_families: Mapping[str, tuple[str, ...]]
    owners: Mapping[str, str]

    @cached_property
    def _covered(self) -> dict[tuple[str, str], bool]:
        return {}

    @cached_property
    def _keys(self) -> dict[str, TargetKey | None]:
        return {}

    def key(self, text: str) -> TargetKey:
        """The target key that a name spells.

        Raises :class:`UnknownTargetError`, with near matches, for anything else.
        """
        cached = self._keys.get(text)
        if cached is None:
            cached = self._keys[text] = self._parse(text)
        if cached is None:
            raise UnknownTargetError(text, self.near)
        return cached

    def _parse(self, text: str) -> TargetKey | None:
        name = self.aliases.get(text, text)
        if name in self.bundles:
            return TargetKey(name, name, name, is_bundle=True)
        try:
            target = TargetId.parse(name)
        except ValueError:
            return None
        if target.processor not in self.processors:
            return None
        base = target.processor
        return TargetKey(str(target), base, self.owners.get(base, base))

    def near(self, text: str) -> tuple[str, ...]:
        """Known names similar to an unknown one, best first; at most three."""
        import difflib  # only for names that are wrong

        known = [*self.processors, *self.bundles, *self.aliases]
        return tuple(difflib.get_close_matches(text.lower(), sorted(known), n=3, cutoff=0.6))

    def covers(self, key: TargetKey, target: str) -> bool:
        """True where content of ``target`` (a target ID) may lie under ``key``.

        A bundle covers its processors and the generic processors of its family; a processor covers target
        IDs that do not contradict it.
        """
        # Asked once for every kernel of a release, about a few dozen pairs.
        answer = self._covered.get((key.name, target))
        if answer is None:
            answer = self._covered[key.name, target] = self._covers(key, target)
        return answer

    def _covers(self, key: TargetKey, target: str) -> bool:
        try:
            other = self.key(target)
        except UnknownTargetError:
            return False
        if key.is_bundle:
            if other.name == key.name or other.base in self.bundles[key.name]:
                return True
            return other.base.endswith("-generic") and self._generic_in(other.base, key.name)
        if other.is_bundle:
            return False
        mine, theirs = TargetId.parse(key.name), TargetId.parse(other.name)
        if mine.processor.endswith("-strict") and not theirs.processor.endswith("-strict"):
            # An ELF header, and what is derived from one, has no word for -strict.
            mine = TargetId(mine.processor.removesuffix("-strict"), mine.features)
        return mine.agrees_with(theirs)

    @staticmethod
    def _generic_in(generic: str, bundle: str) -> bool:
        # gfx11-generic lies in gfx11; gfx9-4-generic lies in gfx9_4 and in gfx9.
        stem = generic.removesuffix("-generic").replace("-", "_")
        return stem == bundle or stem.startswith(bundle + "_")

    def suffix_targets(self, suffix: str) -> frozenset[str]:
        """The part keys that an artifact directory's suffix declares; empty for ``generic``.

        Raises :class:`UnknownTargetError` for a suffix that is neither ``generic`` nor a target, a bundle key
        or one of ROCm's build families.
        """
        if suffix == GENERIC:
            return frozenset()
        family = self.build_family(suffix)
        if family is not None:
            return frozenset(family)
        key = self.key(suffix)
        return frozenset((key.base, *self.bundles.get(key.name, ())))

    def build_family(self, name: str) -> tuple[str, ...] | None:
        """The processors of one of ROCm's build families (``gfx94X-dcgpu``, ``gfx1151-igpu``), else None."""
        if name in self.build_families:
            return self.build_families[name]
        processor, dash, kind = name.rpartition("-")
        if dash and kind in ("dgpu", "igpu", "dcgpu", "all") and processor in self.processors:
            return (processor,)
        return None

    def device(self, text: str) -> DeviceFilter:
        """What ``--device KEY`` asks for.

        Raises :class:`~kpacktools.errors.CallError` for a key or family that nobody knows.
        """
        family = text.removeprefix("family:")
        if family != text:
            name = self.aliases.get(family, family)
            members = self.bundles.get(name) or self.build_family(family)
            if members is None:
                import difflib

                known = sorted((*self.bundles, *self.build_families))
                near = difflib.get_close_matches(family, known, n=3, cutoff=0.5)
                raise CallError(
                    f"--device {text}: unknown family {family!r}; "
                    + (f"near: {', '.join(near)}" if near else f"known: {', '.join(known)}")
                )
            # A variant such as gfx1250-strict is its own part: a family takes it only when it is named.
            plain = tuple(m for m in members if m not in self.owners)
            inner = tuple(b for b, mine in self.bundles.items() if set(mine) <= set(members))
            return DeviceFilter(text, members=plain, bundles=inner if name in self.bundles else ())
        try:
            key = self.key(text)
        except UnknownTargetError as error:
            raise CallError(
                f"--device {text}: unknown target"
                + (f"; near: {', '.join(error.near)}" if error.near else "")
                + f"; a family is spelled family:{text}" * (self.build_family(text) is not None)
            ) from None
        return DeviceFilter(text, key=key)


class DeviceFilter(Struct, frozen=True):
    """One ``--device``: an exact key with its feature variants, or the members of a family."""

    text: str
    key: TargetKey | None = None
    members: tuple[str, ...] = ()
    bundles: tuple[str, ...] = ()

    def takes(self, key: TargetKey) -> bool:
        """True where content of ``key`` is asked for."""
        if self.key is None:
            return key.base in self.members or key.name in self.bundles
        return key.name == self.key.name or (key.base == self.key.name and not key.is_bundle)


def table_from(data: Mapping[str, Any]) -> TargetTable:
    """A table out of rocm-bootstrap's families and the contents of a ``targets.toml``."""
    import rocm_bootstrap as rocm  # 13 ms: only once a target is looked at

    bundles = {
        bundle.key: tuple(target.name for target in bundle.members)
        for bundle in (*rocm.ALL_SUB_FAMILIES, *rocm.ALL_FAMILIES)
    }
    parents: dict[str, list[str]] = {}
    for key, members in bundles.items():  # sub-families first: nearest first
        for member in members:
            parents.setdefault(member, []).append(key)
    for sub in rocm.ALL_SUB_FAMILIES:
        parents[sub.key] = [
            family.key for family in rocm.ALL_FAMILIES if set(sub.members) <= set(family.members)
        ]
    listed = data.get("targets", {})
    return TargetTable(
        processors=frozenset(
            (
                *(target.name for target in rocm.ALL_TARGETS),
                *listed.get("processors", ()),
                *listed.get("generics", ()),
            )
        ),
        bundles=bundles,
        parents={member: tuple(keys) for member, keys in parents.items()},
        aliases=dict(data.get("aliases", {})),
        build_families={name: tuple(members) for name, members in data.get("build_families", {}).items()},
        owners=dict(data.get("owners", {})),
    )


@lru_cache(maxsize=1)
def default_targets() -> TargetTable:
    """The table that ships with the package: rocm-bootstrap and ``topology/targets.toml``."""
    return table_from(load_table("targets.toml"))


def wheel_parents(table: TargetTable, key: TargetKey, built: Iterable[str]) -> tuple[str, ...]:
    """The bundle keys among ``built`` that contain ``key``: whose wheels the key's own wheel requires."""
    present = set(built)
    return tuple(parent for parent in table.parents.get(key.base, ()) if parent in present)
