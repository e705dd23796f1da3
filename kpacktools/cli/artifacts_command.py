"""``kpacktools artifacts archive|emit|check``: a group whose commands are imported when they are asked for."""

from __future__ import annotations

import importlib
from typing import Final

import click

__all__ = ["command"]

_COMMANDS: Final = {
    "archive": "Pack artifact directories into archives, byte for byte the same every time.",
    "emit": "Write the descriptors that capture a tree.",
    "check": "Check descriptors against a tree.",
}


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"kpacktools.cli.artifacts_{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.group("artifacts", cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Artifact directories as TheRock's tools have them: archives and descriptors."""
