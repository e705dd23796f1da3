"""What a wheel says about itself: its file name and the files of its dist-info folder.

Pure functions after the specifications "Binary distribution format", "Core metadata", "Recording installed
projects" (all on packaging.python.org) and SOURCE_DATE_EPOCH (reproducible-builds.org).
"""

from __future__ import annotations

import os
import re
import sysconfig
import zlib
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping
from itertools import product
from typing import Final

import deflate
from msgspec import Struct, field
from packaging.tags import parse_tag
from packaging.utils import canonicalize_name
from packaging.version import Version

from kpacktools import __version__
from kpacktools.errors import CallError
from kpacktools.outputs.members import Later, Member
from kpacktools.outputs.requirements import normal_requirement
from kpacktools.outputs.sbom import Provenance
from kpacktools.outputs.zipformat import Packed
from kpacktools.trees.wheel import VARIANT_LABEL

__all__ = [
    "WheelSpec",
    "dist_info_folder",
    "metadata_file",
    "platform_tag",
    "record_file",
    "source_date_epoch",
    "wheel_file",
    "wheel_filename",
    "wheel_stem",
]

_PLATFORM_VARIABLE: Final = "ROCM_SDK_WHEEL_PLATFORM_TAG"
_PLATFORM: Final = re.compile(r"[A-Za-z0-9_]+(?:\.[A-Za-z0-9_]+)*")
_BUILD_TAG: Final = re.compile(r"[0-9][A-Za-z0-9_.]*")


class WheelSpec(Struct, frozen=True):
    """Everything that a wheel will hold and say."""

    distribution: str
    """The project's name in any spelling, ``rocm-sdk-device-gfx12_0``."""
    version: str
    """A version in any spelling that packaging takes; it is normalised."""
    tags: tuple[str, ...]
    """``("py3-none-linux_x86_64",)``: any order, compressed or not."""
    files: tuple[Member, ...] = ()
    """The payload, in any order."""
    generated: tuple[tuple[str, bytes | Later], ...] = ()
    """Further members: path in the archive and content."""
    build_tag: str | None = None
    """Digits first; no hyphen."""
    requires: tuple[str, ...] = ()
    """Requirements, each of which becomes a ``Requires-Dist``."""
    extras: tuple[str, ...] = ()
    summary: str = ""
    requires_python: str = ""
    metadata_version: str = "2.4"
    metadata: bytes | None = None
    """METADATA as it stands, in place of one made of the fields above."""
    dist_info: tuple[tuple[str, bytes], ...] = ()
    """Further files of the dist-info folder, by their names in it: ``("entry_points.txt", b"...")``."""
    declared: Mapping[str, bytes] = field(default_factory=dict)
    """Payload path -> the SHA-256 that its source declares; another one is an error."""
    provenance: Mapping[str, Provenance] | None = None
    """Payload path -> what is known of it: becomes the SBOM. None writes none."""
    root_is_purelib: bool = False
    variant: str | None = None
    """Label of a variant wheel (PEP 825), the last part of its file name."""


def wheel_filename(spec: WheelSpec) -> str:
    """The name that :func:`packaging.utils.parse_wheel_filename` gives back, then the label of a variant.

    Raises :class:`ValueError` where name, version, build tag, tags or label are not valid, or where the tags are no
    product of interpreters, ABIs and platforms, which is all that a file name can express.

    >>> wheel_filename(WheelSpec("rocm-sdk-device-gfx12_0", "7.15.0-rc1", ("py3-none-linux_x86_64",)))
    'rocm_sdk_device_gfx12_0-7.15.0rc1-py3-none-linux_x86_64.whl'
    """
    tags = _expanded(spec.tags)
    axes = [sorted(set(axis)) for axis in zip(*(tag.split("-") for tag in tags), strict=True)]
    if not tags or {"-".join(tag) for tag in product(*axes)} != set(tags):
        raise ValueError(f"no file name can stand for exactly the tags {', '.join(tags) or '(none)'}")
    parts = [wheel_stem(spec), *(".".join(axis) for axis in axes)]
    if spec.build_tag is not None:
        if _BUILD_TAG.fullmatch(spec.build_tag) is None:
            raise ValueError(f"a build tag begins with a digit and has no hyphen: {spec.build_tag!r}")
        parts.insert(1, spec.build_tag)
    if spec.variant is not None:
        if VARIANT_LABEL.fullmatch(spec.variant) is None:
            raise ValueError(f"a variant's label is of a-z, 0-9, dots and underscores: {spec.variant!r}")
        parts.append(spec.variant)
    return "-".join(parts) + ".whl"


def dist_info_folder(spec: WheelSpec) -> str:
    """The folder, without a slash, of METADATA, WHEEL and RECORD. Raises :class:`ValueError` as above."""
    return wheel_stem(spec) + ".dist-info"


def metadata_file(spec: WheelSpec) -> bytes:
    """METADATA. Raises :class:`ValueError` for a requirement, a version or a name that is not valid."""
    if spec.metadata is not None:
        return spec.metadata
    fields = [
        ("Metadata-Version", spec.metadata_version),
        ("Name", canonicalize_name(spec.distribution, validate=True)),
        ("Version", str(Version(spec.version))),
        ("Summary", " ".join(spec.summary.split())),
        ("Requires-Python", spec.requires_python),
        *(("Requires-Dist", normal_requirement(requirement)) for requirement in spec.requires),
        *(("Provides-Extra", canonicalize_name(extra, validate=True)) for extra in spec.extras),
    ]
    return _headers((name, value) for name, value in fields if value)


def wheel_file(spec: WheelSpec, *, used_zlib: bool) -> bytes:
    """WHEEL. The generator names the compressors: the bytes of a wheel are promised for a version of each."""
    compressors = f"libdeflate {deflate.__version__}"
    if used_zlib:
        compressors += f", zlib {zlib.ZLIB_RUNTIME_VERSION}"
    fields = [
        ("Wheel-Version", "1.0"),
        ("Generator", f"kpacktools {__version__} ({compressors})"),
        ("Root-Is-Purelib", "true" if spec.root_is_purelib else "false"),
        *(("Tag", tag) for tag in _expanded(spec.tags)),
    ]
    if spec.build_tag is not None:
        fields.append(("Build", spec.build_tag))
    return _headers(fields)


def record_file(rows: Iterable[Packed], folder: str) -> bytes:
    """RECORD of ``rows`` and of itself in the dist-info ``folder``; digests are unpadded urlsafe base64."""
    lines = []
    for row in rows:
        name, digest = row.name.encode(), urlsafe_b64encode(row.digest).rstrip(b"=")
        # By hand, since the csv module takes longer for this than all else here; names hold no line ends.
        if b"," in name or b'"' in name:
            name = b'"%b"' % name.replace(b'"', b'""')
        lines.append(b"%b,sha256=%b,%d\n" % (name, digest, row.size))
    return b"".join(lines) + f"{folder}/RECORD,,\n".encode()


def platform_tag(explicit: str | None = None, environ: Mapping[str, str] = os.environ) -> str:
    """``explicit``, else ``ROCM_SDK_WHEEL_PLATFORM_TAG``, else the tag of this platform.

    Raises :class:`~kpacktools.errors.CallError` for text that cannot be part of a wheel's name.

    >>> platform_tag(None, {"ROCM_SDK_WHEEL_PLATFORM_TAG": "win_amd64"})
    'win_amd64'
    """
    tag = explicit or environ.get(_PLATFORM_VARIABLE)
    if not tag:
        return re.sub(r"[-. ]", "_", sysconfig.get_platform()).lower()
    if _PLATFORM.fullmatch(tag) is None:
        raise CallError(f"{tag!r} is no platform tag; expected one such as linux_x86_64 or win_amd64")
    return tag.lower()


def source_date_epoch(environ: Mapping[str, str] = os.environ) -> int:
    """``SOURCE_DATE_EPOCH`` in seconds since 1970, or 0, which ZIP files hold as the start of 1980.

    Raises :class:`~kpacktools.errors.CallError` where it is not a whole number.
    """
    text = environ.get("SOURCE_DATE_EPOCH") or "0"
    try:
        return int(text)
    except ValueError:
        raise CallError(f"SOURCE_DATE_EPOCH is {text!r}; expected seconds since 1970") from None


def wheel_stem(spec: WheelSpec) -> str:
    """``name-version``, first part of ``.dist-info`` and ``.data`` folders. Raises :class:`ValueError` as above."""
    name = canonicalize_name(spec.distribution, validate=True)
    return f"{name.replace('-', '_')}-{Version(spec.version)}"


def _expanded(tags: Iterable[str]) -> list[str]:
    return sorted({str(tag) for compressed in tags for tag in parse_tag(compressed)})


def _headers(fields: Iterable[tuple[str, str]]) -> bytes:
    return "".join(f"{name}: {value}\n" for name, value in fields).encode()
