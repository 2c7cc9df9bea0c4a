"""Progress on stderr: on a terminal a bar that is drawn over, elsewhere a line now and then."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self

from . import words

if TYPE_CHECKING:
    from rich.console import Group

    from .screen import Screen

# Elsewhere than on a terminal, at most a line in so many seconds, but for those that must be said.
_EVERY = 10.0
_REFRESH = 4  # a second


class Display:
    """What is under way, in one line, with the share that is done and the seconds that are left where they are known."""

    def __init__(self, screen: Screen, clock: Callable[[], float] = time.monotonic) -> None:
        self._screen, self._clock = screen, clock
        self._text, self._share = "", 0.0
        self._left: float | None = None
        self._said = clock()
        self._live = None
        if screen.live:
            from rich.live import Live

            self._live = Live(
                console=screen.err,
                get_renderable=self._drawn,
                refresh_per_second=_REFRESH,
                transient=True,
                redirect_stdout=False,
            )

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._live is not None:
            self._live.stop()

    def update(self, text: str, share: float = 0.0, left: float | None = None, *, worth_a_line: bool = False) -> None:
        self._text, self._share, self._left = text, min(1.0, share), left
        if self._live is None and (worth_a_line or self._clock() - self._said >= _EVERY):
            self._said = self._clock()
            self._screen.note(" · ".join([f"{self._share:4.0%}", text, *self._time_left()]))

    def say(self, text: str) -> None:
        """A line that stays."""
        self._screen.note(text)

    def _time_left(self) -> list[str]:
        return [] if self._left is None else [f"{words.duration(self._left)} left"]

    def _drawn(self) -> Group:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        row = Table.grid(padding=(0, 1))
        row.add_row(ProgressBar(total=1.0, completed=self._share, width=40), f"{self._share:4.0%}", *self._time_left())
        return Group(row, Text(self._text, no_wrap=True, overflow="ellipsis"))
