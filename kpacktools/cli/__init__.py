"""The command line: a thin layer, one module a command, imported only when it runs.

``kpacktools --help`` needs no more than click: names and one-line descriptions stand here.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Final

import click

from kpacktools import __version__
from kpacktools.errors import CallError

__all__ = ["COMMANDS", "main", "run"]

COMMANDS: Final = {
    "inspect": "Check trees down to the kernel and say what is in them.",
    "split": "Split one tree into a generic part and one part per target.",
    "merge": "Merge per-architecture builds into one set, losing and fusing nothing.",
    "wheel": "Build one wheel per device.",
    "artifacts": "Archive artifact directories, write and check their descriptors.",
    "topology": "Check a build topology, draw it, and say what a release must hold.",
    "kpack": "List, extract or verify kpack archives.",
    "diff": "Say which kernels a set gains, loses and changes as against another.",
    "lock": "Write down every kernel of a release in a file to review, and hold a build to it.",
    "resolve": "Say which content the runtime would pick on a device, and why not.",
    "handlers": "List the engines that are known here, and where each handler comes from.",
    "demo": "Merge, package and inspect the example shards.",
}

EPILOG: Final = """\b
Examples:
  kpacktools demo
  kpacktools inspect shards/ --depth toc
  kpacktools merge shards/gfx942 shards/gfx950 -o merged
  kpacktools wheel merged -o dist --version 7.15.0
  kpacktools COMMAND --help

Exit status: 0 done; 1 refused because of findings, nothing written; 2 the call, the configuration or a path is
unusable."""


class _LazyGroup(click.Group):
    """Imports a command's module when the command is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"kpacktools.cli.{cmd_name}_command")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(
    cls=_LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=EPILOG,
    no_args_is_help=True,
)
@click.version_option(__version__, package_name="kpacktools", message="%(prog)s %(version)s")
def main() -> None:
    """Split and merge per-architecture ROCm builds into device wheels and artifact directories.

    Every file is accounted for, every conflict is named, no kpack is fused, and nothing is written when
    something is wrong.
    """


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit status; every unusable call ends in one line on stderr."""
    try:
        result = main.main(list(arguments), prog_name="kpacktools", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return 2
    except click.ClickException as error:
        return _refuse(error.format_message())
    except CallError as error:
        return _refuse(str(error))
    except BrokenPipeError:
        # The reader of our output went away: nothing more to say, not even by the interpreter's own flush.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 2
    except (click.Abort, KeyboardInterrupt):
        return _refuse("interrupted; every output is as it was before or complete") + 128
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        return _refuse(f"{place}{error.strerror or error}")
    except Exception as error:
        if os.environ.get("KPACKTOOLS_DEBUG", "") not in ("", "0"):
            raise
        message = f"{type(error).__name__}: {error}"
        return _refuse(
            f"internal error: {message} (please report it; KPACKTOOLS_DEBUG=1 shows where it was raised)"
        )
    return result if isinstance(result, int) else 0


def _refuse(message: str) -> int:
    click.echo(f"kpacktools: error: {' '.join(message.split())}", err=True)
    return 2
