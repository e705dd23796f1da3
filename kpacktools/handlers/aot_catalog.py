"""The catalogue of ahead-of-time kernels: families of loose code objects.

``arch_content/aot_catalog/<t>/<family>/family.json`` = ``{family, op_kind, arch, dtype, kernels[{symbol, co_file,
constraints{}, grid{}, block[3], args_signature[{name, type}], workspace_bytes}]}`` and the ``co_file``\\ s beside it;
several kernels share a symbol and differ in co_file (ROCm/rocm-libraries, hipDNN AOT catalogue).
"""

from __future__ import annotations

import posixpath

from kpacktools.checks.references import local_reference, read_typed, some
from kpacktools.findings import Finding, counted, finding
from kpacktools.hookspecs import Bundle, Checked, Content, Handler, Stated, hookimpl

__all__ = ["AotCatalogHandler"]

MANIFEST = "family.json"


class AotCatalogHandler(Handler):
    """Family manifests against the code objects beside them."""

    name = "aot_catalog"
    engines = ("aot_catalog",)
    summary = "arch_content/aot_catalog/<target>/<family>/: family.json and the .co files that it names"

    def check(self, bundle: Bundle, content: Content) -> Checked:
        """Schema, target, and code objects against entries in both directions."""
        from kpacktools.manifests.aot_catalog import Family

        found: list[Finding] = []
        stated: list[Stated] = []
        present = {entry.path for entry in bundle.files(".co", ".hsaco")}
        named: set[str] = set()
        whole = True
        for entry in bundle.files(MANIFEST):
            if posixpath.basename(entry.path) != MANIFEST:
                continue
            manifest = read_typed(bundle, content, entry.path, "aot_catalog.family", Family, found)
            if manifest is None:
                whole = False
                continue
            stated.append(Stated("manifest", manifest.arch, entry.path))
            files = {local_reference(bundle, entry.path, k.co_file, found) for k in manifest.kernels}
            wanted = {path for path in files if path is not None}
            named |= wanted
            missing = sorted(posixpath.basename(path) for path in wanted - present)
            if missing:
                found.append(
                    finding(
                        "missing-kernel",
                        bundle.artifact.where(entry.path),
                        f"names {len(missing)} of {len(wanted)} code objects that are not there: {some(missing)}",
                        "install the .co files beside family.json",
                    )
                )
        orphans = sorted(posixpath.basename(path) for path in present - named)
        if orphans and whole:
            found.append(
                finding(
                    "orphan-kernel",
                    bundle.path,
                    f"holds {counted(len(orphans), 'code object')} that no family.json names and nothing will load: "
                    f"{some(orphans)}",
                    "install the family.json that goes with them",
                )
            )
        return Checked(tuple(found), stated=tuple(stated))


@hookimpl
def kpacktools_handlers() -> list[Handler]:
    """The catalogue's handler."""
    return [AotCatalogHandler()]
