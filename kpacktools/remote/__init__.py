"""Objects in stores that URLs name: S3, web servers, and what else fsspec reaches.

:mod:`kpacktools.remote.urls` only looks at text and may be imported anywhere. :mod:`kpacktools.remote.store` imports
fsspec, of the extra ``kpacktools[remote]``, when a store is opened.
"""

from __future__ import annotations
