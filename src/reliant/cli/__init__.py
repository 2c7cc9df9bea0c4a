"""The command line: thin, one file a command. Nothing heavy is imported before a command runs."""

from __future__ import annotations

import sys
from typing import NoReturn


def main() -> NoReturn:
    """``reliant`` of a shell: the command of ``sys.argv``, then an exit."""
    from .application import run
    from .signals import exit_on_termination

    for stream in (sys.stdout, sys.stderr):
        # A terminal that lacks a letter of ours shows another one instead of ending the command.
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    exit_on_termination()
    sys.exit(run(sys.argv[1:]))
