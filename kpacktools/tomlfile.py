"""TOML files: those that are themselves what is checked, where whatever is wrong inside is a finding, and those that
are part of the call, where it is an error."""

from __future__ import annotations

import sys
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from kpacktools import manifests
from kpacktools.errors import CallError
from kpacktools.findings import Finding, finding
from kpacktools.manifests import Problem
from kpacktools.trees.places import read_file, shown

MAX_SIZE = 64 << 20
"""Bytes of a file."""

__all__ = ["read_call_file", "read_toml", "read_valid", "strings"]


def read_call_file(option: str, path: str, schema: str) -> dict[str, Any]:
    """A file that an option names, valid under ``schema``.

    Raises :class:`~kpacktools.errors.CallError`, which names the option, for whatever is wrong with it.
    """
    return read_valid(f"{option} {shown(path)}", path, schema)


def read_valid(label: str, path: str, schema: str) -> dict[str, Any]:
    """A file or URL that is part of the call, valid under ``schema``; messages begin with ``label``.

    Raises :class:`~kpacktools.errors.CallError` for whatever is wrong with it.
    """
    try:
        data: dict[str, Any] = tomllib.loads(read_file(path, MAX_SIZE).decode("utf-8"))
    except OSError as error:
        raise CallError(f"{label}: {error.strerror}") from error
    except ValueError as error:  # of TOML's syntax, of UTF-8, and of integers with more than 4,300 digits
        raise CallError(f"{label}: not valid TOML: {error}") from error
    except RecursionError:
        raise CallError(f"{label}: nested too deep") from None
    problems = manifests.problems(schema, data)
    if problems:
        raise CallError(f"{label}: {'; '.join(map(str, problems))}")
    return data


def read_toml(path: str, schema: str, name: str) -> tuple[dict[str, Any] | None, tuple[Finding, ...]]:
    """A file's content and a finding ``name`` for each place that does not follow ``schema``.

    The content is returned as it stands, with its faults, so that the rest can be checked too; it is None
    where the file is no TOML.

    Raises :class:`~kpacktools.errors.CallError` where the file cannot be read.
    """
    try:
        raw = read_file(path, MAX_SIZE)
    except OSError as error:
        raise CallError(f"{path}: {error.strerror}") from error
    path = shown(path)
    try:
        data: dict[str, Any] = tomllib.loads(raw.decode("utf-8"))
    except ValueError as error:  # as above
        return None, (finding(name, path, f"is not valid TOML: {error}"),)
    except RecursionError:
        return None, (finding(name, path, "is not valid TOML: nested too deep"),)
    return data, tuple(_finding(name, path, schema, problem) for problem in manifests.problems(schema, data))


def strings(value: object) -> tuple[str, ...]:
    """A string or a list of them as a tuple, without what is neither.

    >>> strings("a"), strings(["a", 3, "b"]), strings(None)
    (('a',), ('a', 'b'), ())
    """
    items = value if isinstance(value, list) else [value]
    return tuple(item for item in items if isinstance(item, str) and item)


def _finding(name: str, path: str, schema: str, problem: Problem) -> Finding:
    where = problem.path.removeprefix("$").removeprefix(".") or "the file"
    if not problem.found.startswith("'"):
        return finding(name, path, f"{where}: expected {problem.expected}, found {problem.found}")
    # A key that the schema does not know is the one problem whose found thing is in single quotes.
    key = problem.found.strip("'")
    if problem.expected.startswith("'"):
        near = problem.expected.strip("'")
        return finding(name, path, f"{where}: unknown key {key!r}; near: {near}", f"did you mean {near!r}?")
    tables = [table for table, rules in _tables(schema) if key in rules.get("properties", {})]
    elsewhere = f" (it is a key of {' and of '.join(tables)})" if tables else ""
    return finding(name, path, f"{where}: unknown key {key!r}{elsewhere}", "remove it: nothing reads it here")


def _tables(schema: str) -> list[tuple[str, dict[str, Any]]]:
    """The kinds of table that a schema defines."""
    return list(manifests.load_schema(schema).get("$defs", {}).items())
