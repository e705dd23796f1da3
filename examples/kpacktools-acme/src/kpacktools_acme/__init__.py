"""kpacktools' plugin for the engine acme."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import resources
from typing import Any

import jsonschema

from kpacktools.findings import Finding, finding
from kpacktools.hookspecs import Bundle, Checked, Content, Expected, Handler, Stated, hookimpl

SCHEMA = json.loads(resources.files(__name__).joinpath("acme.schema.json").read_text("utf-8"))


class AcmeHandler(Handler):
    """``arch_content/acme/<target>/``: ``acme.json`` and the code objects that it names."""

    name = "acme"
    engines = ("acme",)
    summary = "arch_content/acme/<target>/: acme.json and the .co files that it names"

    def check(self, bundle: Bundle, content: Content) -> Checked:
        (root,) = bundle.roots
        path = f"{root}/acme.json"
        where = bundle.artifact.where(path)
        files = {entry.path for entry in bundle.entries}
        if path not in files:
            missing = finding("partial-bundle", bundle.path, "holds no acme.json", "build the engine again")
            return Checked((missing,))
        try:
            manifest = content.json(path)
            jsonschema.validate(manifest, SCHEMA)
        except (ValueError, jsonschema.ValidationError) as error:
            return Checked((finding("manifest-invalid", where, str(error).splitlines()[0]),))
        return Checked(
            findings=tuple(self._compare(bundle, manifest, root, files)),
            # At depth content the core reads each kernel and compares it with what is said here.
            expected=tuple(
                Expected(
                    path=f"{root}/{kernel['file']}",
                    manifest=path,
                    at=f"$.kernels[{i}]",
                    sha256=kernel["sha256"],
                )
                for i, kernel in enumerate(manifest["kernels"])
            ),
            kernels=len(manifest["kernels"]),
            stated=(Stated("manifest", manifest["target"], path),),
            build_id=manifest["build"],
        )

    def _compare(
        self, bundle: Bundle, manifest: dict[str, Any], root: str, files: set[str]
    ) -> Iterator[Finding]:
        for kernel in manifest["kernels"]:
            path = f"{root}/{kernel['file']}"
            where = bundle.artifact.where(path)
            if path not in files:
                yield finding("missing-kernel", where, "is named by acme.json and not there")


@hookimpl
def kpacktools_handlers() -> list[Handler]:
    return [AcmeHandler()]
