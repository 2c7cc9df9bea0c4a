"""Progress on stderr: on a terminal a bar that is drawn over, elsewhere a line now and then."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.console import Group

    from .screen import Screen

# Elsewhere than on a terminal, at most a line in so many seconds, but for those that must be said.
_EVERY = 10.0
_REFRESH = 4  # a second


class Display:
    """What is under way, in one line; the share that is done, where it is known, and figures beside it."""

    def __init__(self, screen: Screen, clock: Callable[[], float] = time.monotonic) -> None:
        self._screen, self._clock = screen, clock
        self._text = ""
        self._share: float | None = None
        self._beside: Sequence[str] = ()
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

    def update(self, text: str, share: float | None = None, beside: Sequence[str] = (), *, worth_a_line: bool = False) -> None:
        self._text, self._share, self._beside = text, share, beside
        if self._live is None and (worth_a_line or self._clock() - self._said >= _EVERY):
            self._said = self._clock()
            done = [] if share is None else [f"{share:4.0%}"]
            self._screen.note(" · ".join([*done, text, *beside]))

    def say(self, text: str) -> None:
        """A line that stays."""
        self._screen.note(text)

    def _drawn(self) -> Group:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        text = Text(self._text, no_wrap=True, overflow="ellipsis")
        if self._share is None:
            return Group(text)
        row = Table.grid(padding=(0, 1))
        row.add_row(ProgressBar(total=1.0, completed=self._share, width=40), f"{self._share:4.0%}", *self._beside)
        return Group(row, text)
