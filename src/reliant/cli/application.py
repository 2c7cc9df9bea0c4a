"""The commands by name, and how each of them ends: exit code, one line on stderr, and with ``--json`` an object on stdout."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from . import cache, doctor, embed, evaluate, fit, presets
from .failures import Failure, failure_of, unknown_command
from .screen import close_log, print_error, print_json


class Commands(TyperGroup):
    """All ways out of a command lead through :func:`run`, in a shell as in a test."""

    def main(self, args: Sequence[str] | None = None, *_: Any, **__: Any) -> NoReturn:
        sys.exit(_run(self, list(sys.argv[1:] if args is None else args)))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and self.get_command(ctx, args[0]) is None:
            raise unknown_command(args[0], self.list_commands(ctx))
        return super().resolve_command(ctx, args)


app = typer.Typer(cls=Commands, add_completion=False, rich_markup_mode="rich", pretty_exceptions_enable=False)


def _show_version(asked: bool) -> None:
    if asked:
        from .. import __version__

        print(f"reliant {__version__}")
        raise typer.Exit()


@app.callback(invoke_without_command=True)
def reliant(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_show_version, is_eager=True, show_default=False)
    ] = False,
) -> None:
    """Learn image representations without labels, from the image relations that can be relied on.

    \b
    Examples:
      reliant fit photos/            learn from a folder of images
      reliant evaluate runs/photos   score what was learned, round by round
      reliant doctor photos/         are this machine and these images fit for it?
    """
    if context.invoked_subcommand is None:
        print(context.get_help())


for command in (fit.fit, embed.embed, evaluate.evaluate, presets.presets, doctor.doctor, cache.cache):
    app.command()(command)


def run(arguments: Sequence[str]) -> int:
    """The exit code of a command line."""
    command: Any = typer.main.get_command(app)
    return _run(command, list(arguments))


def _run(group: Commands, arguments: list[str]) -> int:
    try:
        with group.make_context("reliant", list(arguments)) as context:
            group.invoke(context)
        sys.stdout.flush()
        return 0
    except typer.Exit as end:
        return int(end.exit_code)
    except BrokenPipeError:
        return _reader_gone()
    except BaseException as error:
        if isinstance(error, SystemExit) and error.code == 1:
            return 1  # how rich ends where the reader of our output has gone
        return _ended_by(failure_of(error, resumes=arguments[:1] == ["fit"]), arguments, error)
    finally:
        close_log()


def _ended_by(failure: Failure, arguments: list[str], error: BaseException) -> int:
    flags = arguments[: arguments.index("--")] if "--" in arguments else arguments
    if failure.unexpected and any(flag == "--verbose" or re.fullmatch("-q*v[qv]*", flag) for flag in flags):
        import traceback

        traceback.print_exception(error, file=sys.stderr)
    print_error(failure.message)
    if "--json" in flags:
        print_json({"error": {"kind": failure.kind, "message": failure.message}})
    return failure.exit_code


def _reader_gone() -> int:
    """Whoever read our output has enough of it: nothing more is written, not even at the interpreter's end."""
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1
