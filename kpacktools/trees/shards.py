"""Shards: what one build left, as artifact directories over trees.

A path that a user gives is opened here as one shard: a folder of artifact directories, one artifact directory,
or an install prefix. ``inspect`` also takes folders above or inside these.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kpacktools.errors import CallError
from kpacktools.findings import Finding, Severity, finding
from kpacktools.targets import TargetTable, UnknownTargetError
from kpacktools.trees import Tree
from kpacktools.trees.directory import scan_directory
from kpacktools.trees.names import MANIFEST_NAME, is_staging_name

__all__ = ["Artifact", "Prefix", "Shard", "open_shard", "open_shards_below"]

_ARTIFACT_NAME = re.compile(r"(?P<name>[^_]+)_(?P<component>[^_]+)_(?P<key>.+)")
_ENGINE_ANCESTORS = ("arch_content", "test_arch_content")


@dataclass(frozen=True, slots=True)
class Prefix:
    """What an install prefix becomes: ``--artifact``, ``--component``, ``--stage``."""

    artifact: str = "prefix"
    component: str = "lib"
    stage: str = "stage"


@dataclass(frozen=True, slots=True, eq=False)
class Artifact:
    """One artifact directory ``{name}_{component}_{suffix}``, or an install prefix taken as one."""

    name: str
    component: str
    suffix: str
    prefixes: tuple[str, ...]
    """Stage prefixes in the order of the manifest."""
    tree: Tree
    mount: str = ""
    """Put before the tree's paths to get artifact paths; ``stage/`` for an install prefix."""

    @property
    def label(self) -> str:
        """The artifact's root as the user would type it."""
        return self.tree.label

    def where(self, path: str) -> str:
        """A path of the tree as the user would type it."""
        return os.path.join(self.tree.label, path) if path else self.tree.label


@dataclass(frozen=True, slots=True, eq=False)
class Shard:
    """One per-architecture build."""

    name: str
    path: str
    artifacts: tuple[Artifact, ...]
    targets: frozenset[str]
    """Part keys that the build was made for; empty where nothing says, and it owns what it holds."""
    run: str | None = None
    """The build run it came from, where a shards file says."""
    findings: tuple[Finding, ...] = ()


def open_shard(path: str, table: TargetTable, prefix: Prefix = Prefix()) -> Shard:
    """Open one shard for a command that writes.

    Raises :class:`~kpacktools.errors.CallError` when the path does not exist, is no folder, or lies above
    several shards.
    """
    _require_folder(path)
    if _is_artifact(path):
        return _shard(path, [path], table)
    children, strays = _children(path)
    if children:
        return _shard(path, children, table, strays)
    below = _artifact_folders(path)
    if below:
        shards = sorted({os.path.dirname(folder) for folder in below})
        raise CallError(
            f"{path} holds {len(shards)} shards, not one: name them ({', '.join(shards[:3])}"
            + (", ...)" if len(shards) > 3 else ")")
        )
    return _prefix_shard(path, prefix, table)


def open_shards_below(path: str, table: TargetTable, prefix: Prefix = Prefix()) -> list[Shard]:
    """Open whatever lies at, above or around ``path``: what ``inspect`` looks at.

    A folder above shards gives all of them; a path inside an artifact directory, or inside an engine's
    container of an install prefix, gives that part of it with its true context.

    Raises :class:`~kpacktools.errors.CallError` when the path does not exist.
    """
    if not os.path.lexists(path):
        raise CallError(f"{path}: no such file or folder")
    outer = _enclosing_artifact(path)
    if outer is not None:
        root, within = outer
        return [_shard(path, [root], table, within=within)]
    if not os.path.isdir(path):
        raise CallError(f"{path} is neither a folder nor a file that inspect reads")
    below = _artifact_folders(path)
    if below:
        parents: dict[str, list[str]] = {}
        for folder in below:
            parents.setdefault(path if folder == path else os.path.dirname(folder), []).append(folder)
        return [
            _shard(parent, folders, table, _strays(parent) if parent not in folders else ())
            for parent, folders in sorted(parents.items())
        ]
    return [_prefix_shard(path, prefix, table)]


def _require_folder(path: str) -> None:
    if not os.path.lexists(path):
        raise CallError(f"{path}: no such file or folder")
    if not os.path.isdir(path):
        raise CallError(f"{path}: expected a folder (an artifact directory, a folder of them, or a prefix)")


def _is_artifact(path: str) -> bool:
    return os.path.isfile(os.path.join(path, MANIFEST_NAME))


def _listing(path: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(path) as listing:
            return sorted(listing, key=lambda child: child.name)
    except OSError as error:
        raise CallError(f"cannot list {path}: {error.strerror}") from error


def _children(path: str) -> tuple[list[str], list[Finding]]:
    """The artifact directories directly below, and findings for what lies beside them."""
    folders = [child.path for child in _listing(path) if child.is_dir() and _is_artifact(child.path)]
    return folders, (_strays(path) if folders else [])


def _strays(path: str) -> list[Finding]:
    """Whatever lies beside artifact directories and belongs to none: it would be lost without a word."""
    found = []
    for child in _listing(path):
        name = child.name
        if is_staging_name(name) or name.endswith((".sha256sum", ".tar.zst", ".tar.xz")):
            continue
        if child.is_dir(follow_symlinks=False):
            if _is_artifact(child.path) or not any(files for _, _, files in os.walk(child.path)):
                continue
            if _ARTIFACT_NAME.fullmatch(name):
                found.append(
                    finding(
                        "archive-invalid",
                        child.path,
                        f"named like an artifact directory, but {MANIFEST_NAME} is missing",
                        f"write its stage prefixes into {child.path}/{MANIFEST_NAME}, one a line",
                    )
                )
                continue
        elif name == MANIFEST_NAME:
            continue
        found.append(
            finding(
                "descriptor-uncaptured",
                child.path,
                "lies beside the artifact directories and belongs to none of them",
                "move it into an artifact directory, or out of the shard",
                severity=Severity.WARNING,
            )
        )
    return found


def _artifact_folders(path: str) -> list[str]:
    """Every artifact directory at or below ``path``; artifact directories are not searched."""
    found = []
    pending = [path]
    while pending:
        where = pending.pop()
        if _is_artifact(where):
            found.append(where)
            continue
        pending += [
            child.path
            for child in _listing(where)
            if child.is_dir(follow_symlinks=False) and not is_staging_name(child.name)
        ]
    return sorted(found)


def _enclosing_artifact(path: str) -> tuple[str, str] | None:
    """The artifact directory strictly above ``path`` and the path inside it, else None."""
    inner: list[str] = []
    root = os.path.normpath(path)
    absolute = os.path.abspath(path)
    for _ in range(absolute.count(os.sep)):
        inner.insert(0, os.path.basename(absolute))
        absolute = os.path.dirname(absolute)
        root = os.path.dirname(root) if os.path.basename(root) not in ("", ".", "..") else absolute
        if _is_artifact(absolute):
            return root or ".", "/".join(inner)
    return None


def _shard(
    path: str,
    folders: Sequence[str],
    table: TargetTable,
    strays: Iterable[Finding] = (),
    within: str = "",
) -> Shard:
    artifacts = []
    found = list(strays)
    targets: set[str] = set()
    for folder in folders:
        artifact, findings = _open_artifact(folder, table, within)
        artifacts.append(artifact)
        found += findings
        try:
            targets |= table.suffix_targets(artifact.suffix)
        except UnknownTargetError as error:
            found.append(
                finding(
                    "unknown-target",
                    folder,
                    f"the suffix {artifact.suffix!r} of artifact directory {_basename(folder)} is neither "
                    "'generic' nor a target, a bundle key or a build family",
                    f"known names near it: {', '.join(error.near)}"
                    if error.near
                    else "add the processor to a policy file's [targets] table",
                )
            )
    name = _basename(path)
    if len(folders) == 1 and (_is_artifact(path) or within):
        name = artifacts[0].suffix
    return Shard(name, path, tuple(artifacts), frozenset(targets), None, tuple(found))


def _basename(path: str) -> str:
    return os.path.basename(os.path.abspath(path))


def _open_artifact(folder: str, table: TargetTable, within: str) -> tuple[Artifact, list[Finding]]:
    found = []
    match = _ARTIFACT_NAME.fullmatch(_basename(folder))
    if match is None:
        raise CallError(
            f"{folder} holds {MANIFEST_NAME}, but its name is not {{name}}_{{component}}_{{target or 'generic'}}"
        )
    if "_" in match["key"]:
        found.append(
            finding(
                "artifact-name-unreadable",
                folder,
                f"the target part {match['key']!r} holds an underscore; TheRock's own name pattern does not "
                "parse it",
                "expected where the part is keyed by a bundle such as gfx12_0; use the alias without an "
                "underscore where there is one",
            )
        )
    prefixes, findings = _read_manifest(os.path.join(folder, MANIFEST_NAME))
    tree = scan_directory(folder, within=within, skip=frozenset((MANIFEST_NAME,)))
    return (
        Artifact(match["name"], match["component"], match["key"], prefixes, tree),
        found + findings,
    )


def _read_manifest(path: str) -> tuple[tuple[str, ...], list[Finding]]:
    try:
        with open(path, encoding="utf-8") as stream:
            text = stream.read(1 << 20)
    except OSError as error:
        raise CallError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError:
        return (), [finding("archive-invalid", path, "is not UTF-8 text", "expected one stage prefix a line")]
    prefixes = []
    found = []
    for line in text.splitlines():
        prefix = line.strip().rstrip("/")
        if not prefix:
            continue
        parts = prefix.split("/")
        if prefix.startswith("/") or "\\" in prefix or any(part in ("", ".", "..") for part in parts):
            found.append(
                finding(
                    "bad-path",
                    path,
                    f"the stage prefix {line.strip()!r} is not a plain relative path",
                    "stage prefixes are paths below the artifact directory, such as ml-libs/x/stage",
                )
            )
        else:
            prefixes.append(prefix)
    return tuple(dict.fromkeys(prefixes)), found


def _prefix_shard(path: str, prefix: Prefix, table: TargetTable) -> Shard:
    """An install prefix as a shard. Where ``path`` lies inside an engine's container (``.../arch_content/x``),
    the tree is rooted above the container, so that the content is seen in its true place."""
    root, within = path, ""
    parts = os.path.abspath(path).split(os.sep)
    for container in _ENGINE_ANCESTORS:
        if container in parts:
            depth = len(parts) - parts.index(container)
            within = "/".join(parts[-depth:])
            root = os.path.join(path, *[os.pardir] * depth)
            root = os.path.relpath(root) if not os.path.isabs(path) else os.path.normpath(root)
            break
    tree = scan_directory(root, within=within, label=os.path.normpath(root))
    artifact = Artifact(
        prefix.artifact, prefix.component, "generic", (prefix.stage,), tree, mount=prefix.stage + "/"
    )
    return Shard(_basename(path), path, (artifact,), frozenset())
