"""A descriptor as TOML text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kpacktools.descriptors.model import Descriptor, StageRules

__all__ = ["as_toml"]


def as_toml(descriptor: Descriptor, header: Iterable[str]) -> str:
    """The text of a descriptor: comment lines, then stage directory by stage directory, each in the order of the chain.

    Equal descriptors give equal text.
    """
    blocks = ["".join(f"# {line}\n" for line in header)]
    for stage in descriptor.stages():
        for name, component in descriptor.components.items():
            if stage in component.stages:
                blocks.append("".join(_table(name, stage, component.stages[stage])))
    return "\n".join(blocks)


def _table(component: str, stage: str, rules: StageRules) -> Iterator[str]:
    yield f"[components.{component}.{_string(stage)}]\n"
    if not rules.default_patterns:
        yield "default_patterns = false\n"
    if rules.optional is True:
        yield "optional = true\n"
    elif rules.optional:
        yield from _list("optional", rules.optional)
    yield from _list("include", rules.include)
    yield from _list("exclude", rules.exclude)
    yield from _list("force_include", rules.force_include)


def _list(key: str, values: tuple[str, ...]) -> Iterator[str]:
    if values:
        yield f"{key} = [\n"
        yield from (f"  {_string(value)},\n" for value in values)
        yield "]\n"


def _string(text: str) -> str:
    """A TOML basic string. Control characters, which would need more escapes, are refused before."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
