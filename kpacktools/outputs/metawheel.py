"""The meta wheel: no files, one extra per device that was built, and one for all of them.

``pip install rocm-sdk-devices[device-gfx942]`` installs the wheel of that device. Extras exist only for what was built,
across platforms: reports of other platforms' runs are joined under ``sys_platform`` markers.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version

from kpacktools.errors import CallError
from kpacktools.outputs.wheels import WheelSpec

__all__ = ["BuiltWheel", "meta_spec", "read_reports"]

_PLATFORMS: Final = (("linux", "linux"), ("manylinux", "linux"), ("musllinux", "linux"), ("win", "win32"),
                     ("macosx", "darwin"))  # fmt: skip
"""How a platform tag begins -> ``sys_platform`` (packaging specifications, "Dependency specifiers")."""


class BuiltWheel(Struct, frozen=True):
    """A device wheel of some platform's run."""

    key: str
    distribution: str
    version: str
    platform: str | None
    """``sys_platform``; None for a wheel of any platform."""


def read_reports(paths: Iterable[str]) -> tuple[BuiltWheel, ...]:
    """The device wheels that reports of ``kpacktools wheel --format json`` list.

    Raises :class:`~kpacktools.errors.CallError` for a file that is no such report.
    """
    found = []
    for path in paths:
        try:
            with open(path, encoding="utf-8") as stream:
                report = json.load(stream)
            outputs = [item for item in report["outputs"] if item["kind"] == "wheel"]
            if report["command"] != "wheel" or not report["ok"]:
                raise ValueError("no report of a wheel command that succeeded")
            for item in outputs:
                if item["key"] != "generic":
                    found.append(built_wheel(item["key"], os.path.basename(item["path"])))
        except OSError as error:
            raise CallError(f"--meta-from {path}: {error.strerror}") from error
        except (ValueError, KeyError, TypeError, InvalidWheelFilename) as error:
            raise CallError(
                f"--meta-from {path}: expected what `kpacktools wheel --format json` printed: {error}"
            ) from None
    return tuple(found)


def built_wheel(key: str, filename: str) -> BuiltWheel:
    """A wheel by its file name. Raises :class:`packaging.utils.InvalidWheelFilename`."""
    name, version, _, tags = parse_wheel_filename(filename)
    platforms = {_sys_platform(tag.platform) for tag in tags}
    platform = next(iter(platforms)) if len(platforms) == 1 else None
    return BuiltWheel(key, str(name), str(version), platform)


def _sys_platform(tag: str) -> str | None:
    return next((name for prefix, name in _PLATFORMS if tag.startswith(prefix)), None)


def meta_spec(name: str, version: str, built: Sequence[BuiltWheel], pin: Mapping[str, str]) -> WheelSpec:
    """The meta wheel ``name`` over some device wheels.

    ``pin`` maps a version to its specifier (``==7.15.0``). Raises :class:`~kpacktools.errors.CallError` where the
    wheels are not all of one version.
    """
    versions = sorted({item.version for item in built} | {str(Version(version))})
    if len(versions) > 1:
        raise CallError(f"--meta {name}: the device wheels have different versions: {', '.join(versions)}")
    everywhere = {item.platform for item in built}
    by_key: dict[str, dict[str, set[str | None]]] = {}
    for item in built:
        by_key.setdefault(item.key, {}).setdefault(item.distribution, set()).add(item.platform)
    requires = []
    for key, distributions in sorted(by_key.items()):
        extra = f"device-{canonicalize_name(key)}"
        for distribution, platforms in sorted(distributions.items()):
            where = _marker(platforms, everywhere)
            for wanted in (extra, "device-all"):
                markers = " and ".join(filter(None, (where, f'extra == "{wanted}"')))
                requires.append(f"{distribution}{pin[str(Version(version))]} ; {markers}")
    extras = [f"device-{canonicalize_name(key)}" for key in sorted(by_key)]
    return WheelSpec(
        distribution=name,
        version=version,
        tags=("py3-none-any",),
        requires=tuple(requires),
        extras=(*extras, "device-all"),
        summary="ROCm device code: one extra per device",
        root_is_purelib=True,
    )


def _marker(platforms: set[str | None], everywhere: set[str | None]) -> str:
    """No marker for a wheel that every platform of the set has."""
    if None in platforms or platforms == everywhere:
        return ""
    names = [f'sys_platform == "{platform}"' for platform in sorted(p for p in platforms if p)]
    return names[0] if len(names) == 1 else f"({' or '.join(names)})"
