"""``kpacktools handlers``."""

from __future__ import annotations

import json

import click

from kpacktools.plugins import load_registry


@click.command("handlers")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(form: str) -> int:
    """List the handlers: name, engine, where each comes from, and what it claims.

    Third-party handlers are distributions with an entry point in the group "kpacktools".
    """
    registry = load_registry()
    problems = [*registry.findings, *(found for _, found in registry.broken)]
    rows = [
        {
            "name": item.handler.name,
            "engine": item.handler.engine,
            "engines": list(item.handler.engines),
            "from": item.distribution,
            "module": item.module,
            "claims": item.handler.summary,
        }
        for item in registry.registered
    ]
    if form == "json":
        found = [{"name": p.name, "severity": p.severity.value, "message": p.message} for p in problems]
        document = {"schema": "kpacktools.handlers/v1", "handlers": rows, "findings": found}
        click.echo(json.dumps(document, indent=1))
    else:
        widths = [max(len(str(row[column])) for row in rows) for column in ("name", "engine", "from")]
        for row in rows:
            cells = (
                str(row[column]).ljust(width)
                for column, width in zip(("name", "engine", "from"), widths, strict=True)
            )
            click.echo("  ".join(cells))
            click.echo(f"    claims {row['claims']}")
        for problem in problems:
            click.echo(f"{problem.severity}: {problem.message}", err=True)
    return 1 if registry.findings else 0
