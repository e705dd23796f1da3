"""Opening shards: paths that a user gives become artifact directories over trees.

A path is opened as one shard: a folder of artifact directories, one artifact directory or archive, or an install
prefix. ``inspect`` also takes folders above or inside these, and wheels.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from kpacktools.errors import CallError
from kpacktools.findings import Finding, Severity, finding
from kpacktools.targets import GENERIC, TargetTable, UnknownTargetError
from kpacktools.trees import Tree, names_in
from kpacktools.trees.checksum import CHECKSUM_SUFFIX
from kpacktools.trees.directory import scan_directory
from kpacktools.trees.names import MANIFEST_NAME, MAX_MANIFEST, archive_stem, is_staging_name
from kpacktools.trees.shards import Artifact, Prefix, Shard
from kpacktools.trees.spool import Spool
from kpacktools.trees.wheel import WHEEL_SUFFIX, distribution_of, open_wheel

__all__ = ["is_wheel_file", "open_shard", "open_shards_below"]

_ARTIFACT_NAME = re.compile(r"(?P<name>[^_]+)_(?P<component>[^_]+)_(?P<key>.+)")
_ENGINE_ANCESTORS = ("arch_content", "test_arch_content")


def open_shard(path: str, table: TargetTable, prefix: Prefix = Prefix()) -> Shard:
    """Open one shard for a command that writes.

    Raises :class:`~kpacktools.errors.CallError` when the path does not exist, is neither a folder nor an artifact
    archive, or lies above several shards.
    """
    if _is_archive(path):
        return _shard(path, [path], table)
    _require_folder(path)
    if _is_artifact(path):
        return _shard(path, [path], table)
    children, strays = _children(path, table)
    if children:
        return _shard(path, children, table, strays)
    shard = _prefix_shard(path, prefix, table)
    # Nearly always it is a prefix: its names were just read, and tell whether a second, closer look is needed.
    below = _find_below(path, table).artifacts if _may_hold_artifacts(shard.artifacts[0].tree) else ()
    if below:
        shards = sorted({os.path.dirname(folder) for folder in below})
        raise CallError(
            f"{path} holds {len(shards)} shards, not one: name them ({', '.join(shards[:3])}"
            + (", ...)" if len(shards) > 3 else ")")
        )
    return shard


def _may_hold_artifacts(tree: Tree) -> bool:
    """False where no name in a tree is that of an artifact directory's manifest, or like an archive's."""
    return any(
        MANIFEST_NAME in names or ".tar." in "/".join(names) for names in map(names_in, tree.folders.values())
    )


def open_shards_below(path: str, table: TargetTable, prefix: Prefix = Prefix()) -> list[Shard]:
    """Open whatever lies at, above or around ``path``: what ``inspect`` looks at.

    A folder above shards and wheels gives all of them; a path inside an artifact directory, or inside an engine's
    container of an install prefix, gives that part of it with its true context. Wheels among the files of an
    install prefix are files of it.

    Raises :class:`~kpacktools.errors.CallError` when the path does not exist.
    """
    if not os.path.lexists(path):
        raise CallError(f"{path}: no such file or folder")
    if os.path.isfile(path) and path.endswith(".json"):
        path = os.path.dirname(path) or "."  # a bundle manifest stands for its bundle
    if is_wheel_file(path):
        return [_wheel_shard(path, table, Spool())]
    outer = _enclosing_artifact(path)
    if outer is not None:
        root, within = outer
        return [_shard(path, [root], table, within=within)]
    if _is_archive(path):
        return [_shard(path, [path], table)]
    if not os.path.isdir(path):
        raise CallError(f"{path} is neither a folder nor a file that inspect reads")
    below = _find_below(path, table)
    if not (below.artifacts or below.is_for_wheels):
        return [_prefix_shard(path, prefix, table)]
    parents: dict[str, list[str]] = {}
    for root in below.artifacts:
        parents.setdefault(path if root == path else os.path.dirname(root), []).append(root)
    shards = [
        _shard(parent, roots, table, _strays(parent, table, below.wheels) if parent not in roots else ())
        for parent, roots in sorted(parents.items())
    ]
    spool = Spool()
    return shards + [_wheel_shard(wheel, table, spool) for wheel in below.wheels]


def is_wheel_file(path: str) -> bool:
    """True for a path that names a wheel."""
    return path.endswith(WHEEL_SUFFIX) and os.path.isfile(path)


def _require_folder(path: str) -> None:
    if not os.path.lexists(path):
        raise CallError(f"{path}: no such file or folder")
    if not os.path.isdir(path):
        raise CallError(
            f"{path}: expected a folder (an artifact directory, a folder of them, or a prefix) or an artifact "
            "archive (.tar.zst, .tar.xz)"
        )


def _is_artifact(path: str) -> bool:
    return os.path.isfile(os.path.join(path, MANIFEST_NAME))


def _listing(path: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(path) as listing:
            return sorted(listing, key=lambda child: child.name)
    except OSError as error:
        raise CallError(f"cannot list {path}: {error.strerror}") from error


def _is_archive(path: str) -> bool:
    return archive_stem(path) is not None and os.path.isfile(path)


def _children(path: str, table: TargetTable) -> tuple[list[str], list[Finding]]:
    """The artifact directories and archives directly below, and findings for what lies beside them."""
    children = _listing(path)
    roots = [child.path for child in children if child.is_dir() and _is_artifact(child.path)]
    roots += _archives(children, table)
    return sorted(roots), (_strays(path, table) if roots else [])


def _archives(children: Iterable[os.DirEntry[str]], table: TargetTable) -> list[str]:
    """The artifact archives among the entries of a folder, known by their names.

    One beside the artifact directory that it was made of is passed over: TheRock's builds leave both.
    """
    found = []
    for child in children:
        stem = archive_stem(child.path)
        match = None if stem is None else _ARTIFACT_NAME.fullmatch(_basename(stem))
        if match and child.is_file() and _is_key(match["key"], table) and not _has_folder(child.path):
            found.append(child.path)
    return found


def _has_folder(archive: str) -> bool:
    """True where the artifact directory lies beside that an archive stands for."""
    stem = archive_stem(archive)
    return stem is not None and _is_artifact(stem)


def _is_key(suffix: str, table: TargetTable) -> bool:
    """True for a suffix that is known, or a target that is not; false for those of names such as a_b_c.tar.xz."""
    try:
        table.suffix_targets(suffix)
    except UnknownTargetError:
        return suffix.startswith("gfx")
    return True


def _strays(path: str, table: TargetTable, wheels: Collection[str] = ()) -> list[Finding]:
    """Whatever lies beside artifacts and belongs to none of them: it would be lost without a word. ``wheels`` are
    shards of their own."""
    found = []
    children = _listing(path)
    archives = _archives(children, table)
    for child in children:
        name = child.name
        if is_staging_name(name) or name.endswith(CHECKSUM_SUFFIX):
            continue
        if child.path in archives or child.path in wheels or _has_folder(child.path):
            continue
        if child.is_dir(follow_symlinks=False):
            if _is_artifact(child.path) or not any(files for _, _, files in os.walk(child.path)):
                continue
            if any(wheel.startswith(child.path + os.sep) for wheel in wheels):
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


class _Below(NamedTuple):
    """What lies at or below a folder."""

    artifacts: list[str]
    """Artifact directories and archives."""
    wheels: list[str]
    is_for_wheels: bool
    """There are wheels, and every file lies in a folder that holds one: the folder is no install prefix."""


def _find_below(path: str, table: TargetTable) -> _Below:
    """Every artifact directory, archive and wheel at or below ``path``; artifact directories are not searched."""
    artifacts: list[str] = []
    wheels: list[str] = []
    is_for_wheels = True
    pending = [path]
    while pending:
        where = pending.pop()
        if _is_artifact(where):
            artifacts.append(where)
            continue
        children = _listing(where)
        artifacts += _archives(children, table)
        folders = [child for child in children if child.is_dir(follow_symlinks=False)]
        found = [child.path for child in children if child.name.endswith(WHEEL_SUFFIX) and child.is_file()]
        wheels += found
        if not found and len(folders) < len(children):
            is_for_wheels = False
        pending += [child.path for child in folders if not is_staging_name(child.name)]
    return _Below(sorted(artifacts), sorted(wheels), is_for_wheels and bool(wheels))


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
    roots: Sequence[str],
    table: TargetTable,
    strays: Iterable[Finding] = (),
    within: str = "",
) -> Shard:
    artifacts = []
    found = list(strays)
    targets: set[str] = set()
    spool = Spool()
    for root in roots:
        artifact, findings = _open_artifact(root, within, spool)
        artifacts.append(artifact)
        found += findings
        try:
            targets |= table.suffix_targets(artifact.suffix)
        except UnknownTargetError as error:
            found.append(
                finding(
                    "unknown-target",
                    root,
                    f"the suffix {artifact.suffix!r} of artifact directory {_basename(root)} is neither "
                    "'generic' nor a target, a bundle key or a build family",
                    f"known names near it: {', '.join(error.near)}"
                    if error.near
                    else "add the processor to a policy file's [targets] table",
                )
            )
    name = _basename(path)
    if len(roots) == 1 and (roots[0] == path or within):
        name = artifacts[0].suffix
    return Shard(name, path, tuple(artifacts), frozenset(targets), findings=tuple(found))


def _wheel_shard(path: str, table: TargetTable, spool: Spool) -> Shard:
    """A wheel as a shard: what it holds lies below the place of packages."""
    opened = open_wheel(path, spool)
    distribution = distribution_of(path)
    key = _device_key(distribution, table)
    artifact = Artifact(distribution, "wheel", key, (".",), opened.tree, mount="./")
    targets = frozenset() if key == GENERIC else frozenset((key,))
    return Shard(_basename(path), path, (artifact,), targets, findings=opened.findings)


def _device_key(distribution: str, table: TargetTable) -> str:
    """The target key that a distribution's name ends in, as that of a device wheel does, else ``generic``."""
    _, found, tail = distribution.rpartition("-gfx")
    for spelling in (f"gfx{tail}", f"gfx{tail}".replace("-", "_")) if found else ():
        try:
            return table.key(spelling).name
        except UnknownTargetError:
            continue
    return GENERIC


def _basename(path: str) -> str:
    return os.path.basename(os.path.abspath(path))


def _open_artifact(root: str, within: str, spool: Spool) -> tuple[Artifact, list[Finding]]:
    """An artifact directory, or an archive, whose files go to ``spool`` when they are read."""
    found = []
    packed = _is_archive(root)
    match = _ARTIFACT_NAME.fullmatch(_basename((archive_stem(root) if packed else root) or ""))
    if match is None:
        what = "is an artifact archive" if packed else f"holds {MANIFEST_NAME}"
        raise CallError(f"{root} {what}, but its name is not {{name}}_{{component}}_{{target or 'generic'}}")
    if "_" in match["key"]:
        found.append(
            finding(
                "artifact-name-unreadable",
                root,
                f"the target part {match['key']!r} holds an underscore; TheRock's own name pattern does not "
                "parse it",
                "expected where the part is keyed by a bundle such as gfx12_0; use the alias without an "
                "underscore where there is one",
            )
        )
    tree: Tree
    manifest = os.path.join(root, MANIFEST_NAME)
    if packed:
        from kpacktools.trees.archive import open_archive  # what unpacks is for those who have packed things

        archive = open_archive(root, spool)
        tree, data = archive.tree, archive.manifest
        found += archive.findings
    else:
        data = _read(manifest)
        tree = scan_directory(root, within=within, skip=frozenset((MANIFEST_NAME,)))
    prefixes, findings = _stage_prefixes(manifest, data)
    return Artifact(match["name"], match["component"], match["key"], prefixes, tree), found + findings


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as stream:
            return stream.read(MAX_MANIFEST)
    except OSError as error:
        raise CallError(f"cannot read {path}: {error.strerror}") from error


def _stage_prefixes(path: str, manifest: bytes) -> tuple[tuple[str, ...], list[Finding]]:
    """What a manifest lists; ``path`` is where it is, for messages."""
    try:
        text = manifest.decode()
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
