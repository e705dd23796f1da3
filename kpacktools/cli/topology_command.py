"""``kpacktools topology check|graph|plan``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from kpacktools.cli.options import emit, run_options, settings_from
from kpacktools.errors import CallError
from kpacktools.outputs.textfile import write_text

if TYPE_CHECKING:
    from kpacktools.topology.model import Topology

CHECK_EPILOG = """\b
Examples:
  kpacktools topology check BUILD_TOPOLOGY.toml
  kpacktools topology check BUILD_TOPOLOGY.toml --descriptors .
  kpacktools topology check BUILD_TOPOLOGY.toml --tree merged --strict"""

GRAPH_EPILOG = """\b
Examples:
  kpacktools topology graph BUILD_TOPOLOGY.toml -o topology.svg
  kpacktools topology graph BUILD_TOPOLOGY.toml --format mermaid"""

PLAN_EPILOG = """\b
Examples:
  kpacktools topology plan BUILD_TOPOLOGY.toml --target gfx942 --target gfx950
  kpacktools topology plan BUILD_TOPOLOGY.toml --target family:gfx94X-dcgpu |
    sed 's/^/--require /' | xargs kpacktools inspect merged"""


@click.group("topology")
def command() -> None:
    """Check a build topology, draw it, and say what a release must hold by it."""


@command.command(
    "check", short_help="Check a topology, also against descriptors and a release.", epilog=CHECK_EPILOG
)
@click.argument("path", metavar="FILE")
@click.option(
    "--descriptors",
    metavar="DIR",
    help="Folder with the artifacts' descriptors; CMake files in it say which is whose.",
)
@click.option(
    "--map",
    "mapped",
    multiple=True,
    metavar="NAME=FILE",
    help="The artifact that a descriptor describes, where neither its name nor CMake says so. May be repeated.",
)
@click.option("--tree", metavar="DIR", help="A release to compare with: a folder of artifact directories.")
@run_options(default_depth=None)
def check_command(
    path: str, descriptors: str | None, mapped: tuple[str, ...], tree: str | None, **options: Any
) -> int:
    """Check a BUILD_TOPOLOGY.toml: its schema, references, owners and handlers.

    With --descriptors and --tree also whether the artifacts' types agree with what they take and hold.
    """
    from kpacktools.topology.check import check

    if mapped and descriptors is None:
        raise CallError("--map says whose a descriptor is: name their folder with --descriptors")
    settings = settings_from(options)
    report = check(path, settings, descriptors=descriptors, mapped=mapped, tree=tree)
    return emit(report, options["shown"], settings)


@command.command("graph", short_help="Draw it as SVG or Mermaid.", epilog=GRAPH_EPILOG)
@click.argument("path", metavar="FILE")
@click.option(
    "--format",
    "form",
    type=click.Choice(["mermaid", "svg"]),
    help="[default: svg where the output is named .svg, else mermaid]",
)
@click.option("-o", "--output", metavar="FILE", help="Write to FILE instead of stdout.")
def graph_command(path: str, form: str | None, output: str | None) -> int:
    """Draw stages, groups and artifacts; target-specific ones are marked, their split handlers named."""
    from kpacktools.topology.mermaid import as_mermaid
    from kpacktools.topology.svg import as_svg

    topology = _readable(path)
    chosen = form or ("svg" if output is not None and output.endswith(".svg") else "mermaid")
    text = as_svg(topology) if chosen == "svg" else as_mermaid(topology)
    if output is None:
        click.echo(text, nl=False)
        return 0
    write_text(output, text)
    return 0


@command.command("plan", short_help="Say what a release of some targets must hold.", epilog=PLAN_EPILOG)
@click.argument("path", metavar="FILE")
@click.option(
    "--target",
    "targets",
    multiple=True,
    required=True,
    metavar="KEY",
    help="A target of the release: gfx942, a bundle key, or family:NAME. May be repeated.",
)
@click.option(
    "--platform",
    type=click.Choice(["linux", "windows"]),
    help="Leave out artifacts that are not built there.",
)
@click.option("--policy", metavar="FILE", help="TOML file of further targets.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
def plan_command(
    path: str, targets: tuple[str, ...], platform: str | None, policy: str | None, form: str
) -> int:
    """Say which content a release for some targets must hold, as --require values for inspect, one a line."""
    from kpacktools.plugins import load_registry
    from kpacktools.policy import load_policy
    from kpacktools.topology.parts import required_parts, requirements, target_keys

    topology = _readable(path)
    keys = target_keys(targets, load_policy(policy).targets())
    parts = required_parts(topology, keys, load_registry().handlers, platform)
    if form == "json":
        document = {
            "schema": "kpacktools.plan/v1",
            "targets": list(keys),
            "parts": [{**part._asdict(), "require": part.requirement} for part in parts],
            "require": list(requirements(parts)),
        }
        click.echo(json.dumps(document, indent=1))
    else:
        for requirement in requirements(parts):
            click.echo(requirement)
    return 0


def _readable(path: str) -> Topology:
    """A topology that can be used, whatever else is wrong with it.

    Raises :class:`~kpacktools.errors.CallError` for a file that is no TOML.
    """
    from kpacktools.topology.model import read_topology

    topology, findings = read_topology(path)
    if topology is None:
        raise CallError(f"{path}: {findings[0].message}")
    return topology
