"""URLs as text: told from paths, taken apart, joined, and made fit to be shown. Nothing is opened here.

A path is a URL where it begins with a scheme of two letters or more and ``://``; ``C:\\x`` is none. Names inside a
URL of a web server are percent-encoded and may be followed by a query; in any other URL they stand as they are.
"""

from __future__ import annotations

import posixpath
import re
from typing import Final

__all__ = [
    "basename",
    "canonical",
    "is_url",
    "is_web",
    "join",
    "local_path",
    "parent",
    "plain",
    "scheme_of",
    "shown",
]

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_WEB: Final = ("http", "https")
_SAFE: Final = "/:@!$&'()*,;=~+"
"""What may stand in the path of a web URL as it is (RFC 3986, 3.3)."""


def is_url(path: str) -> bool:
    """True for a URL.

    >>> is_url("s3://bucket/shards"), is_url("C:\\\\shards"), is_url("shards/gfx942:xnack+")
    (True, False, False)
    """
    return _SCHEME.match(path) is not None


def scheme_of(url: str) -> str:
    """The scheme in lower case; empty for a path."""
    match = _SCHEME.match(url)
    return "" if match is None else match[1].lower()


def is_web(url: str) -> bool:
    """True for a URL whose names are percent-encoded: that of a web server."""
    return scheme_of(url) in _WEB


def local_path(url: str) -> str | None:
    """The path that a ``file:`` URL of this machine stands for; None for any other URL, and for a path.

    >>> local_path("file:///srv/a%20b")
    '/srv/a b'
    """
    if scheme_of(url) != "file":
        return None
    from urllib.request import url2pathname  # long to import, and rarely needed

    host, slash, path = url.partition("://")[2].partition("/")
    return url2pathname(slash + path) if host in ("", "localhost") else None


def plain(url: str) -> str:
    """A URL without query and fragment, and without slashes at its end: what names are read from."""
    if is_web(url):
        url = re.split("[?#]", url, maxsplit=1)[0]
    head = _SCHEME.match(url)
    return url if head is None else head[0] + url[head.end() :].rstrip("/")


def basename(url: str) -> str:
    """The last name of a URL, decoded: the object's, or the host's or bucket's where there is none behind it.

    >>> basename("https://host/dist/x%2By.whl?token=1"), basename("s3://bucket/")
    ('x+y.whl', 'bucket')
    """
    name = posixpath.basename(plain(url))
    return _decoded(name) if is_web(url) else name


def join(url: str, path: str) -> str:
    """A path below a URL; its query is kept (a token holds for all that lies below).

    >>> join("https://host/a?t=1", "b c/x#1"), join("s3://bucket/a", "b c")
    ('https://host/a/b%20c/x%231?t=1', 's3://bucket/a/b c')
    """
    if not path:
        return url
    if not is_web(url):
        return f"{url.rstrip('/')}/{path}"
    return f"{plain(url)}/{_encoded(path)}{_query(url)}"


def parent(url: str) -> str:
    """The folder that a URL lies in; the URL itself, without what follows, where it names a host or bucket."""
    head, slash, _ = plain(url).rpartition("/")
    return head + _query(url) if slash and not head.endswith(":/") else plain(url)


def shown(url: str) -> str:
    """A URL for reports and messages: without user, password, query and fragment, which may be secrets.

    >>> shown("https://me:secret@host/a/b.whl?X-Amz-Signature=00")
    'https://host/a/b.whl'
    """
    bare = plain(url)
    scheme, _, rest = bare.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


def canonical(url: str) -> str:
    """A URL as it is compared with others: names in one spelling, the query kept.

    >>> canonical("S3://bucket/a/") == canonical("s3://bucket/a")
    True
    """
    bare = plain(url)
    place = _encoded(_decoded(bare)) if is_web(url) else bare
    return f"{scheme_of(url)}{place[len(scheme_of(url)) :]}{_query(url)}"


def _query(url: str) -> str:
    query = url.partition("#")[0].partition("?")[2] if is_web(url) else ""
    return f"?{query}" if query else ""


def _decoded(name: str) -> str:
    from urllib.parse import unquote  # for those who have URLs

    return unquote(name)


def _encoded(path: str) -> str:
    from urllib.parse import quote

    return quote(path, safe=_SAFE)
