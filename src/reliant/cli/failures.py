"""How a command ends that does not end well: any exception → exit code, kind and one line."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import typer

from ..errors import MissingExtraError, ReliantError, UsageError

# Of click, or of the copy of it that newer versions of typer bring along.
ParserError: Any = typer.BadParameter.__bases__[0]


@dataclass(frozen=True, kw_only=True)
class Failure:
    """``unexpected``: nobody raised it on purpose, so where it came from is of interest."""

    exit_code: int
    kind: str
    message: str
    unexpected: bool = False


def failure_of(error: BaseException, resumes: bool = False) -> Failure:
    """``resumes``: the command goes on from where it was stopped when it is given again."""
    stopped = "stopped; the same command goes on from here" if resumes else "stopped"
    match error:
        case ReliantError():
            return Failure(exit_code=error.exit_code, kind=type(error).__name__, message=_one_line(str(error)))
        case KeyboardInterrupt():
            return Failure(exit_code=130, kind="Interrupted", message=stopped)
        case SystemExit():
            return Failure(exit_code=error.code if isinstance(error.code, int) else 1, kind="Terminated", message=stopped)
        case ModuleNotFoundError(name="torch"):
            return failure_of(MissingExtraError("this needs torch, which is not installed; pip install 'reliant[train]'"))
        case _ if isinstance(error, ParserError):
            return Failure(exit_code=2, kind=UsageError.__name__, message=_parser_message(error))
    what = f"unexpected {type(error).__name__}: {error}"
    advice = "a defect of reliant; the same command with -v shows where, please report it"
    return Failure(exit_code=1, kind=type(error).__name__, message=_one_line(f"{what} ({advice})"), unexpected=True)


def unknown_command(name: str, commands: Iterable[str]) -> UsageError:
    return UsageError(_unknown("command", name, sorted(commands)))


def _parser_message(error: Any) -> str:
    """What the parser of arguments has to say, in the manner of our own errors."""
    context = error.ctx
    if context is None:
        return _lowered(error.format_message())
    path = context.command_path
    within = "" if context.parent is not None else "options of a command come after its name; "
    advice = f"{within}see '{path} --help'"
    name = getattr(error, "option_name", None)
    if name is not None and hasattr(error, "possibilities"):
        known = [option for parameter in context.command.params for option in parameter.opts if option.startswith("--")]
        return f"{_unknown('option', name, [*known, '--help'])} ({advice})"
    return f"{_lowered(error.format_message())}; {advice}"


def _unknown(kind: str, name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.7)
    hint = f"did you mean '{near[0]}'?" if near else f"allowed: {', '.join(known)}"
    return f"unknown {kind} '{name}'; {hint}"


def _lowered(text: str) -> str:
    said = _one_line(text).rstrip(".")
    return f"{said[:1].lower()}{said[1:]}"


def _one_line(text: str) -> str:
    return " ".join(text.split())
