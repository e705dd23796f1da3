"""AITER: loose code objects (``.co``) and the tables (``.csv``) that name them.

``arch_content/aiter/<t>/**`` and, in AITER's own wheel, ``aiter_meta/hsa/<t>/**``. The columns ``co_name`` and
``knl_file`` of a table name code objects beside it (ROCm/aiter, hsa/).
"""

from __future__ import annotations

import csv
import io
import posixpath
from collections.abc import Iterator
from typing import Final

from kpacktools.checks.references import some
from kpacktools.findings import Finding, finding
from kpacktools.hookspecs import Bundle, Checked, Content, Handler, hookimpl

__all__ = ["AiterHandler"]

COLUMNS: Final = ("co_name", "knl_file")


class AiterHandler(Handler):
    """Tables against the code objects beside them."""

    name = "aiter"
    engines = ("aiter",)
    containers = ("aiter_meta/hsa",)
    summary = "arch_content/aiter/<target>/** and aiter_meta/hsa/<target>/**: .co files and their .csv tables"

    def check(self, bundle: Bundle, content: Content) -> Checked:
        """Every code object that a table names is there. Others are reached by other ways: no orphans here."""
        tables = bundle.files(".csv")
        present = {entry.path for entry in bundle.entries} if tables else set()
        found: list[Finding] = []
        for entry in tables:
            found += _check_table(bundle, content, entry.path, present)
        return Checked(tuple(found))


def _check_table(bundle: Bundle, content: Content, path: str, present: set[str]) -> Iterator[Finding]:
    where = bundle.artifact.where(path)
    try:
        rows = list(csv.reader(io.StringIO(content.read(path).decode("utf-8"), newline="")))
    except (OSError, ValueError, csv.Error) as error:
        yield finding(
            "manifest-invalid", where, f"cannot be read as a table: {error}", "expected CSV in UTF-8"
        )
        return
    header = [name.strip() for name in rows[0]] if rows else []
    columns = [index for index, name in enumerate(header) if name in COLUMNS]
    names = {row[i].strip() for row in rows[1:] for i in columns if i < len(row)} - {""}
    folder = posixpath.dirname(path)
    missing = sorted(
        name for name in names if posixpath.normpath(posixpath.join(folder, name)) not in present
    )
    if missing:
        yield finding(
            "missing-kernel",
            where,
            f"names {len(missing)} of {len(names)} code objects that are not there: {some(missing)}",
            "install the .co files beside the table",
        )


@hookimpl
def kpacktools_handlers() -> list[Handler]:
    """AITER's handler."""
    return [AiterHandler()]
