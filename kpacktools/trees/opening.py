"""Opening shards: paths that a user gives become artifact directories over trees.

A path is opened as one shard: a folder of artifact directories, one artifact directory or archive, or an install
prefix. ``inspect`` also takes folders above or inside these, and wheels. Each of them may be a URL: what lies there
is asked of :mod:`kpacktools.trees.places`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from kpacktools.errors import CallError
from kpacktools.findings import Finding, Severity, finding
from kpacktools.remote.urls import plain
from kpacktools.targets import GENERIC, TargetTable, UnknownTargetError
from kpacktools.trees import Tree, names_in
from kpacktools.trees.access import Access
from kpacktools.trees.checksum import CHECKSUM_SUFFIX
from kpacktools.trees.names import MANIFEST_NAME, MAX_MANIFEST, REPORT_NAME, archive_stem, is_staging_name
from kpacktools.trees.place import Child, Places
from kpacktools.trees.places import parent, place_of
from kpacktools.trees.shards import Artifact, Prefix, Shard
from kpacktools.trees.spool import Spool
from kpacktools.trees.wheel import WHEEL_SUFFIX, distribution_of, open_wheel

__all__ = ["is_wheel_file", "open_shard", "open_shards_below"]

_ARTIFACT_NAME = re.compile(r"(?P<name>[^_]+)_(?P<component>[^_]+)_(?P<key>.+)")
_ENGINE_ANCESTORS = ("arch_content", "test_arch_content")


def open_shard(path: str, table: TargetTable, prefix: Prefix = Prefix(), access: Access = Access()) -> Shard:
    """Open one shard for a command that writes.

    Raises :class:`~kpacktools.errors.CallError` when the path does not exist, is neither a folder nor an artifact
    archive, or lies above several shards.
    """
    places, path = place_of(path, access)
    opening = _Opening(places, table, access)
    if opening.is_archive(path):
        return opening.shard(path, [path])
    opening.require_folder(path)
    if opening.is_artifact(path):
        return opening.shard(path, [path])
    children, strays = opening.children(path)
    if children:
        return opening.shard(path, children, strays)
    shard = opening.prefix_shard(path, prefix)
    # Nearly always it is a prefix: its names were just read, and tell whether a second, closer look is needed.
    below = opening.find_below(path).artifacts if _may_hold_artifacts(shard.artifacts[0].tree) else ()
    if below:
        shards = sorted({places.parent(folder) for folder in below})
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


def open_shards_below(
    path: str, table: TargetTable, prefix: Prefix = Prefix(), access: Access = Access()
) -> list[Shard]:
    """Open whatever lies at, above or around ``path``: what ``inspect`` looks at.

    A folder above shards and wheels gives all of them; a path inside an artifact directory, or inside an engine's
    container of an install prefix, gives that part of it with its true context. Wheels among the files of an
    install prefix are files of it.

    Raises :class:`~kpacktools.errors.CallError` when the path does not exist.
    """
    given = path
    places, path = place_of(given, access)
    if not places.exists(path):
        raise CallError(f"{path}: no such file or folder")
    if path.endswith(".json") and places.is_file(path):
        # A bundle manifest stands for its bundle.
        places, path = place_of(parent(given), access)
    opening = _Opening(places, table, access)
    if path.endswith(WHEEL_SUFFIX) and places.is_file(path):
        return [opening.wheel_shard(path, Spool())]
    outer = places.enclosing(path, MANIFEST_NAME)
    if outer is not None:
        root, within = outer
        return [_Opening(places.at(root), table, access).shard(path, [root], within=within)]
    if opening.is_archive(path):
        return [opening.shard(path, [path])]
    if not places.is_folder(path):
        raise CallError(f"{path} is neither a folder nor a file that inspect reads")
    below = opening.find_below(path)
    if not (below.artifacts or below.is_for_wheels):
        return [opening.prefix_shard(path, prefix)]
    parents: dict[str, list[str]] = {}
    for root in below.artifacts:
        parents.setdefault(path if root == path else places.parent(root), []).append(root)
    shards = [
        opening.shard(above, roots, opening.strays(above, below.wheels) if above not in roots else ())
        for above, roots in sorted(parents.items())
    ]
    spool = Spool()
    return shards + [opening.wheel_shard(wheel, spool) for wheel in below.wheels]


def is_wheel_file(path: str, access: Access = Access()) -> bool:
    """True for a path that names a wheel.

    Raises :class:`~kpacktools.errors.CallError` for a URL whose store does not answer.
    """
    if not plain(path).endswith(WHEEL_SUFFIX):
        return False
    places, where = place_of(path, access)
    return places.is_file(where)


class _Opening:
    """One path on its way to shards."""

    def __init__(self, places: Places, table: TargetTable, access: Access) -> None:
        self._places = places
        self._table = table
        self._access = access

    def require_folder(self, path: str) -> None:
        if not self._places.exists(path):
            raise CallError(f"{path}: no such file or folder")
        if not self._places.is_folder(path):
            raise CallError(
                f"{path}: expected a folder (an artifact directory, a folder of them, or a prefix) or an artifact "
                "archive (.tar.zst, .tar.xz)"
            )

    def is_artifact(self, path: str) -> bool:
        return self._places.is_file(self._places.join(path, MANIFEST_NAME))

    def is_archive(self, path: str) -> bool:
        return archive_stem(path) is not None and self._places.is_file(path)

    def children(self, path: str) -> tuple[list[str], list[Finding]]:
        """The artifact directories and archives directly below, and findings for what lies beside them."""
        children = self._places.children(path)
        roots = [child.path for child in children if child.is_dir() and self.is_artifact(child.path)]
        roots += self._archives(children)
        return sorted(roots), (self.strays(path) if roots else [])

    def _archives(self, children: Iterable[Child]) -> list[str]:
        """The artifact archives among the entries of a folder, known by their names.

        One beside the artifact directory that it was made of is passed over: TheRock's builds leave both.
        """
        found = []
        for child in children:
            stem = archive_stem(child.name)
            match = None if stem is None else _ARTIFACT_NAME.fullmatch(stem)
            if (
                match
                and child.is_file()
                and _is_key(match["key"], self._table)
                and not self._has_folder(child.path)
            ):
                found.append(child.path)
        return found

    def _has_folder(self, archive: str) -> bool:
        """True where the artifact directory lies beside that an archive stands for."""
        stem = archive_stem(archive)
        return stem is not None and self.is_artifact(stem)

    def strays(self, path: str, wheels: Collection[str] = ()) -> list[Finding]:
        """Whatever lies beside artifacts and belongs to none of them: it would be lost without a word. ``wheels`` are
        shards of their own."""
        found = []
        children = self._places.children(path)
        archives = self._archives(children)
        for child in children:
            name = child.name
            if is_staging_name(name) or name.endswith(CHECKSUM_SUFFIX):
                continue
            if child.path in archives or child.path in wheels or self._has_folder(child.path):
                continue
            if child.is_dir(follow_symlinks=False):
                if self.is_artifact(child.path) or not self._places.holds_files(child.path):
                    continue
                inside = self._places.join(child.path, "")
                if any(wheel.startswith(inside) for wheel in wheels):
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
            elif name in (MANIFEST_NAME, REPORT_NAME):
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

    def find_below(self, path: str) -> _Below:
        """Every artifact directory, archive and wheel at or below ``path``; artifact directories are not searched."""
        artifacts: list[str] = []
        wheels: list[str] = []
        is_for_wheels = True
        pending = [path]
        while pending:
            where = pending.pop()
            if self.is_artifact(where):
                artifacts.append(where)
                continue
            children = self._places.children(where)
            artifacts += self._archives(children)
            folders = [child for child in children if child.is_dir(follow_symlinks=False)]
            found = [
                child.path for child in children if child.name.endswith(WHEEL_SUFFIX) and child.is_file()
            ]
            wheels += found
            if not found and len(folders) < len(children):
                is_for_wheels = False
            pending += [child.path for child in folders if not is_staging_name(child.name)]
        return _Below(sorted(artifacts), sorted(wheels), is_for_wheels and bool(wheels))

    def shard(
        self, path: str, roots: Sequence[str], strays: Iterable[Finding] = (), within: str = ""
    ) -> Shard:
        artifacts = []
        found = list(strays)
        targets: set[str] = set()
        spool = Spool()
        for root in roots:
            artifact, findings = self._open_artifact(root, within, spool)
            artifacts.append(artifact)
            found += findings
            try:
                targets |= self._table.suffix_targets(artifact.suffix)
            except UnknownTargetError as error:
                found.append(
                    finding(
                        "unknown-target",
                        root,
                        f"the suffix {artifact.suffix!r} of artifact directory {self._places.name(root)} is neither "
                        "'generic' nor a target, a bundle key or a build family",
                        f"known names near it: {', '.join(error.near)}"
                        if error.near
                        else "add the processor to a policy file's [targets] table",
                    )
                )
        name = self._places.name(path)
        if len(roots) == 1 and (roots[0] == path or within):
            name = artifacts[0].suffix
        return Shard(name, path, tuple(artifacts), frozenset(targets), findings=tuple(found))

    def wheel_shard(self, path: str, spool: Spool) -> Shard:
        """A wheel as a shard: what it holds lies below the place of packages."""
        opened = open_wheel(path, spool, self._places.source(path, partial=True), self._access.cache)
        distribution = distribution_of(path)
        key = _device_key(distribution, self._table)
        artifact = Artifact(distribution, "wheel", key, (".",), opened.tree, mount="./")
        targets = frozenset() if key == GENERIC else frozenset((key,))
        return Shard(self._places.name(path), path, (artifact,), targets, findings=opened.findings)

    def _open_artifact(self, root: str, within: str, spool: Spool) -> tuple[Artifact, list[Finding]]:
        """An artifact directory, or an archive, whose files go to ``spool`` when they are read."""
        found = []
        packed = self.is_archive(root)
        name = self._places.name(root)
        match = _ARTIFACT_NAME.fullmatch((archive_stem(name) or "") if packed else name)
        if match is None:
            what = "is an artifact archive" if packed else f"holds {MANIFEST_NAME}"
            raise CallError(
                f"{root} {what}, but its name is not {{name}}_{{component}}_{{target or 'generic'}}"
            )
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
        manifest = self._places.join(root, MANIFEST_NAME)
        if packed:
            from kpacktools.trees.archive import (
                open_archive,  # what unpacks is for those who have packed things
            )

            archive = open_archive(root, spool, self._places.source(root), self._access)
            tree, data = archive.tree, archive.manifest
            found += archive.findings
        else:
            data = self._places.read(manifest, MAX_MANIFEST)
            tree = self._places.tree(root, within=within, skip=frozenset((MANIFEST_NAME,)))
        prefixes, findings = _stage_prefixes(manifest, data)
        return Artifact(match["name"], match["component"], match["key"], prefixes, tree), found + findings

    def prefix_shard(self, path: str, prefix: Prefix) -> Shard:
        """An install prefix as a shard. Where ``path`` lies inside an engine's container (``.../arch_content/x``),
        the tree is rooted above the container, so that the content is seen in its true place."""
        root, within = path, ""
        parts = self._places.parts(path)
        for container in _ENGINE_ANCESTORS:
            if container in parts:
                depth = len(parts) - parts.index(container)
                within = "/".join(parts[-depth:])
                root = self._places.above(path, depth)
                break
        skip = frozenset((REPORT_NAME,))
        tree = self._places.tree(root, within=within, label=self._places.normal(root), skip=skip)
        artifact = Artifact(
            prefix.artifact, prefix.component, "generic", (prefix.stage,), tree, mount=prefix.stage + "/"
        )
        return Shard(self._places.name(path), path, (artifact,), frozenset())


class _Below(NamedTuple):
    """What lies at or below a folder."""

    artifacts: list[str]
    """Artifact directories and archives."""
    wheels: list[str]
    is_for_wheels: bool
    """There are wheels, and every file lies in a folder that holds one: the folder is no install prefix."""


def _is_key(suffix: str, table: TargetTable) -> bool:
    """True for a suffix that is known, or a target that is not; false for those of names such as a_b_c.tar.xz."""
    try:
        table.suffix_targets(suffix)
    except UnknownTargetError:
        return suffix.startswith("gfx")
    return True


def _device_key(distribution: str, table: TargetTable) -> str:
    """The target key that a distribution's name ends in, as that of a device wheel does, else ``generic``."""
    _, found, tail = distribution.rpartition("-gfx")
    for spelling in (f"gfx{tail}", f"gfx{tail}".replace("-", "_")) if found else ():
        try:
            return table.key(spelling).name
        except UnknownTargetError:
            continue
    return GENERIC


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
