"""Which descriptors a folder holds, and which artifact each describes.

The file's name says it (``artifact-<name>.toml``), or a ``therock_provide_artifact`` call of a CMake file beside it, or
the user (``--map NAME=FILE``). In a checkout of TheRock the CMake files decide.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from kpacktools.descriptors.model import ARTIFACT_NAME, name_of
from kpacktools.errors import CallError
from kpacktools.remote import urls

__all__ = ["Found", "Provided", "find_descriptors", "parse_map", "provided_artifacts"]

_DESCRIPTOR_FILE: Final = re.compile(r"artifact(?:[-_].+)?\.toml")
_CALL: Final = re.compile(r"^[ \t]*therock_provide_artifact\s*\(([^()]*)\)", re.MULTILINE)
_COMMENT: Final = re.compile(r"#.*")
_TOKEN: Final = re.compile(r'"([^"]*)"|([^\s"]+)')
_KEYWORDS: Final = ("TARGET_NEUTRAL", "DESCRIPTOR", "DISTRIBUTION", "COMPONENTS", "SUBPROJECT_DEPS")


class Provided(Struct, frozen=True):
    """One ``therock_provide_artifact(NAME ...)`` of a CMake file (ROCm/TheRock, ``therock_artifacts.cmake``)."""

    artifact: str
    cmake: str
    """Path of the CMake file."""
    descriptor: str
    """Path of the descriptor, ``artifact.toml`` beside the CMake file unless the call names one."""
    components: tuple[str, ...]
    target_neutral: bool


class Found(Struct, frozen=True):
    """The descriptors of a folder."""

    files: tuple[str, ...]
    """Every descriptor, sorted."""
    artifacts: Mapping[str, tuple[str, ...]]
    """Descriptor -> the artifacts that it describes by what the user, CMake or its name say; empty where nothing
    says."""
    provided: tuple[Provided, ...] = ()
    """The calls in CMake files; empty in a folder without such files."""


def parse_map(pairs: Iterable[str]) -> dict[str, str]:
    """Real path of a descriptor -> artifact, of ``--map NAME=FILE``.

    Raises :class:`~kpacktools.errors.CallError` for a pair that is none, a name that is none and a file that is not
    there or is named for two artifacts.
    """
    found: dict[str, str] = {}
    for pair in pairs:
        name, equals, path = pair.partition("=")
        if not equals or not path or ARTIFACT_NAME.fullmatch(name) is None:
            raise CallError(f"--map {pair}: expected NAME=FILE, such as sysdeps=linux/artifact.toml")
        if not os.path.isfile(path):
            raise CallError(f"--map {pair}: no such file")
        if found.setdefault(os.path.realpath(path), name) != name:
            raise CallError(f"--map {pair}: {path} is already that of {found[os.path.realpath(path)]}")
    return found


def find_descriptors(folder: str, mapped: Mapping[str, str]) -> Found:
    """Find descriptors below a folder, and CMake's calls that say which artifact each describes.

    ``mapped`` is the result of :func:`parse_map`; it goes before CMake, which goes before the file's name. Folders
    whose names begin with a dot are passed over.

    Raises :class:`~kpacktools.errors.CallError` where the folder is none.
    """
    local = urls.local_path(folder)
    if local is None and urls.is_url(folder):
        raise CallError(
            f"{urls.shown(folder)}: descriptors are searched for in folders of this machine; name each, or copy them"
        )
    folder = local or folder
    if not os.path.isdir(folder):
        raise CallError(f"{folder}: expected a folder with descriptors, artifact-NAME.toml")
    files: list[str] = []
    provided: list[Provided] = []
    for where, names, children in os.walk(folder):
        names[:] = sorted(name for name in names if not name.startswith("."))
        for child in sorted(children):
            path = os.path.join(where, child)
            if _DESCRIPTOR_FILE.fullmatch(child):
                files.append(path)
            elif child == "CMakeLists.txt" or child.endswith(".cmake"):
                provided += provided_artifacts(path)
    by_file: dict[str, list[str]] = {}
    for call in provided:
        by_file.setdefault(os.path.realpath(call.descriptor), []).append(call.artifact)
    artifacts = {path: _names(path, mapped, by_file) for path in files}
    return Found(tuple(sorted(files)), artifacts, tuple(provided))


def _names(path: str, mapped: Mapping[str, str], by_file: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    real = os.path.realpath(path)
    if real in mapped:
        return (mapped[real],)
    if real in by_file:
        return tuple(dict.fromkeys(by_file[real]))
    name = name_of(path)
    return () if name is None else (name,)


def provided_artifacts(path: str) -> Iterator[Provided]:
    """The calls of one CMake file whose artifact is named in plain text.

    Raises :class:`~kpacktools.errors.CallError` where the file cannot be read.
    """
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            text = stream.read()
    except OSError as error:
        raise CallError(f"{path}: {error.strerror}") from error
    if "therock_provide_artifact" not in text:
        return
    here = os.path.dirname(path)
    for call in _CALL.finditer(_COMMENT.sub("", text)):
        name, *rest = [quoted or plain for quoted, plain in _TOKEN.findall(call[1])] or [""]
        if ARTIFACT_NAME.fullmatch(name) is None:
            continue
        arguments = _by_keyword(rest)
        file = (arguments.get("DESCRIPTOR") or ["artifact.toml"])[0]
        file = re.sub(r"\$\{CMAKE_CURRENT_(?:SOURCE|LIST)_DIR\}/", "", file)
        yield Provided(
            name,
            path,
            os.path.normpath(os.path.join(here, file)),
            tuple(arguments.get("COMPONENTS", ())),
            "TARGET_NEUTRAL" in arguments,
        )


def _by_keyword(tokens: Iterable[str]) -> dict[str, list[str]]:
    """CMake's arguments by the keyword that they follow."""
    found: dict[str, list[str]] = {}
    values: list[str] = []
    for token in tokens:
        if token in _KEYWORDS:
            values = found.setdefault(token, [])
        else:
            values.append(token)
    return found
