"""Where words go: results to stdout, progress and log to stderr; with ``--json`` one object to stdout and nothing else."""

from __future__ import annotations

import json
import logging
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_LOG = logging.getLogger("reliant")
# Columns where nothing says how many there are.
_FILE_WIDTH = 120


class Screen:
    """What a command shows. ``out`` is for results, ``err`` for progress; neither is written to where it is not wanted."""

    def __init__(self, *, json: bool = False, quiet: bool = False, verbose: bool = False) -> None:
        self.json, self.quiet = json, quiet
        self.err = _console(stderr=True)
        self.out = self.err if json else _console()
        _open_log(self.err, logging.DEBUG if verbose else logging.WARNING if quiet else logging.INFO)

    @property
    def live(self) -> bool:
        """Whether what is shown can be drawn over."""
        return self.err.is_terminal and not self.err.is_dumb_terminal and not self.quiet

    def note(self, text: str) -> None:
        """A line on what is going on."""
        if not self.quiet:
            self.err.print(text, soft_wrap=True)

    def warn(self, text: str) -> None:
        _line(self.err, "warning: ", "yellow", text)

    def show(self, *what: RenderableType) -> None:
        """What a person wants to see before the result."""
        if not self.quiet:
            self._print(*what)

    def result(self, value: dict[str, Any], *what: RenderableType) -> None:
        """How the command ends: the object with ``--json``, else its rendering."""
        if self.json:
            print_json(value)
        else:
            self._print(*what)

    def _print(self, *what: RenderableType) -> None:
        for one in what:
            self.out.print(one, soft_wrap=isinstance(one, str))


def print_json(value: dict[str, Any]) -> None:
    """NaN and infinity become null."""
    from ..store.events import readable

    print(json.dumps(readable(value)), flush=True)


def print_error(message: str) -> None:
    _line(_console(stderr=True), "reliant: ", "bold red", message)


def close_log() -> None:
    for handler in [one for one in _LOG.handlers if isinstance(one, _Lines)]:
        _LOG.removeHandler(handler)


def _console(stderr: bool = False) -> Console:
    from rich.console import Console

    # Ids and messages may hold what rich would read as markup.
    console = Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _FILE_WIDTH
    return console


def _open_log(console: Console, level: int) -> None:
    close_log()
    _LOG.addHandler(_Lines(console))
    _LOG.setLevel(level)


class _Lines(logging.Handler):
    """A log record a line, above whatever is drawn on the same console."""

    _STYLES = ((logging.ERROR, "bold red"), (logging.WARNING, "yellow"), (logging.INFO, "dim"), (0, "dim"))

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        style = next(style for level, style in self._STYLES if record.levelno >= level)
        _line(self._console, f"{record.levelname.lower()}: ", style, record.getMessage())


def _line(console: Console, prefix: str, style: str, text: str) -> None:
    from rich.text import Text

    console.print(Text.assemble((prefix, style), text), soft_wrap=True)
