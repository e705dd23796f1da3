"""The place that a URL names to publish in."""

from __future__ import annotations

from typing import Final

from kpacktools.errors import CallError
from kpacktools.remote import urls
from kpacktools.remote.destination import Destination
from kpacktools.remote.store import open_store

__all__ = ["open_destination"]

_WHOLE_AT_ONCE: Final = frozenset(
    ("abfs", "abfss", "adl", "az", "gcs", "gs", "memory", "oci", "ocilake", "oss")
)
"""Stores in which an object appears when all of it is there; elsewhere it is written under another name first."""


def open_destination(url: str) -> Destination:
    """The place that a URL names.

    Raises :class:`~kpacktools.errors.CallError` where nothing can be written there, whoever asks.
    """
    shown = urls.shown(url)
    if urls.is_web(url):
        raise CallError(
            f"-o {shown}: a web server is read from only; give a folder, or a URL such as s3://bucket/folder"
        )
    local = urls.local_path(url)
    if local is not None:
        from kpacktools.remote.localdestination import LocalDestination

        return LocalDestination(shown, local)
    scheme = urls.scheme_of(url)
    if scheme == "file":
        raise CallError(f"-o {shown}: a file: URL names a path of this machine, as in file:///srv/release")
    store, path = open_store(url)
    if not path:
        raise CallError(f"-o {shown}: names no bucket; expected one, as in {scheme}://bucket/folder")
    if scheme in ("s3", "s3a"):
        from kpacktools.remote.s3destination import S3Destination

        return S3Destination(shown, store, path)
    from kpacktools.remote.storedestination import StoreDestination

    return StoreDestination(shown, store, path, is_atomic=scheme in _WHOLE_AT_ONCE)
