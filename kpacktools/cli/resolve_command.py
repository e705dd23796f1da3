"""``kpacktools resolve``."""

from __future__ import annotations

import json

import click

from kpacktools.reports.plaintext import clean
from kpacktools.resolving import resolve

EPILOG = """\b
Examples:
  kpacktools resolve merged --engine rocke --target gfx942:sramecc+:xnack-
  kpacktools resolve /opt/rocm --engine kpack --target gfx1201"""


@click.command("resolve", epilog=EPILOG)
@click.argument("root", metavar="ROOT")
@click.option(
    "--engine", required=True, metavar="E", help="An engine's name; kpack for split host libraries."
)
@click.option(
    "--target", required=True, metavar="TARGETID", help="The device's target ID, features included."
)
@click.option("--policy", metavar="FILE", help="TOML file of declared exceptions and further targets.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(root: str, engine: str, target: str, policy: str | None, form: str) -> int:
    """Say what the runtime would look for on a device, in its order, what it finds in ROOT, and why not.

    Exit status 1 where it finds nothing.
    """
    found = resolve(root, engine, target, policy)
    if form == "json":
        document = {"schema": "kpacktools.resolve/v1", "resolutions": [item.as_mapping() for item in found]}
        click.echo(json.dumps(document, indent=1))
    else:
        for item in found:
            click.echo(clean(f"{item.what} on {item.target}"))
            for number, attempt in enumerate(item.attempts, 1):
                state = "not there" if attempt.found is None else f"{attempt.found}"
                extra = f"  ({attempt.note})" if attempt.note else ""
                mark = "->" if attempt is item.taken else "  "
                click.echo(clean(f" {mark} {number}. {attempt.looks_for}: {state}{extra}"))
            if item.taken is None:
                click.echo("    nothing is taken")
            for reason in item.reasons:
                click.echo(clean(f"    {reason}"))
    return 0 if found and all(item.taken is not None for item in found) else 1
