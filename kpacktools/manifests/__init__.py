"""JSON Schemas of the manifests that engines carry, and what is wrong with a document under one.

The schemas (``*.schema.json`` beside this module) are kpacktools' own, written from the formats' descriptions.
jsonschema-rs decides, because it is a hundred times faster; jsonschema explains what it refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

from msgspec import Struct

from kpacktools.data import package_file

__all__ = ["MAX_PROBLEMS", "Problem", "load_schema", "problems"]

MAX_PROBLEMS: Final = 10
"""Problems named per document; a last one counts the rest."""


_PART: Final = re.compile(r"urn:kpacktools:([a-z_.]+)")
"""How one schema refers to another: it is put among its definitions when it is loaded."""


class Problem(Struct, frozen=True):
    """One place where a document does not follow its schema."""

    path: str
    """JSON path, ``$.entries[3].symbol``."""
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.path}: expected {self.expected}, found {self.found}"


@cache
def load_schema(name: str) -> dict[str, Any]:
    """A schema by name, e.g. ``rocke.bundle``. Raises :class:`FileNotFoundError`."""
    text = package_file("manifests", f"{name}.schema.json").decode()
    parts = set(_PART.findall(text))
    schema: dict[str, Any] = json.loads(_PART.sub(r"#/$defs/\1", text))
    if parts:
        schema["$defs"] = {part: load_schema(part) for part in parts}
    return schema


@cache
def _fast(name: str) -> Any:
    import jsonschema_rs

    return jsonschema_rs.Draft202012Validator(load_schema(name))


def problems(name: str, document: object) -> list[Problem]:
    """What is wrong with a decoded JSON document under the schema ``name``; empty when nothing is.

    At most :data:`MAX_PROBLEMS` and one more that says how many were left out.
    """
    try:
        if _fast(name).is_valid(document):
            return []
    except (ValueError, OverflowError, RecursionError) as error:
        # jsonschema-rs converts the document first and refuses what JSON cannot hold or nests too deep.
        return [Problem("$", "a document that can be validated", str(error))]
    return _explain(name, document)


def _explain(name: str, document: object) -> list[Problem]:
    from jsonschema import Draft202012Validator  # 70 ms: only for a document that was refused

    found: list[Problem] = []
    left_out = 0
    try:
        for error in Draft202012Validator(load_schema(name)).iter_errors(document):
            for problem in _problems_of(error):
                if len(found) < MAX_PROBLEMS:
                    found.append(problem)
                else:
                    left_out += 1
    except RecursionError:
        found.append(Problem("$", "a document that can be validated", "nesting that is too deep"))
    if not found:
        # For instance a line feed at the end, which Python's `$` overlooks.
        found.append(Problem("$", "a document that follows its schema", "one that only jsonschema accepts"))
    if left_out:
        found.append(Problem("$", "no further problems", f"{left_out} more"))
    return found


def _problems_of(error: Any) -> Iterator[Problem]:
    """One or more problems out of one error of jsonschema."""
    import difflib

    path, value, rule = error.json_path, error.instance, error.validator_value
    keyword = error.validator
    if keyword == "required":
        missing = [name for name in rule if name not in value]
        # jsonschema reports each missing property on its own, with only the message telling which.
        named = [name for name in missing if error.message.startswith(repr(name))] or missing
        for name in named:
            yield Problem(path, f"the property {name!r}", "none")
    elif keyword == "additionalProperties" and isinstance(value, Mapping):
        known = list(error.schema.get("properties", {}))
        for name in value:
            if name not in known:
                near = difflib.get_close_matches(str(name), known, n=1)
                yield Problem(path, f"{near[0]!r}" if near else "no further property", f"{name!r}")
    elif keyword in ("anyOf", "oneOf") and error.context:
        from jsonschema.exceptions import best_match

        best = best_match(error.context)
        yield from _problems_of(best)
    else:
        yield Problem(path, _expected(keyword, rule), _shown(value))


_RULES: Final = {
    "const": "{}",
    "enum": "one of {}",
    "pattern": "text that matches {}",
    "minLength": "at least {} characters",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "minimum": "at least {}",
    "maximum": "at most {}",
}


def _expected(keyword: str, rule: object) -> str:
    if keyword == "type":
        return " or ".join([rule] if isinstance(rule, str) else [str(item) for item in rule])  # type: ignore[attr-defined]
    return _RULES.get(keyword, keyword + " {}").format(_shown(rule))


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else text[:57] + "..."
