"""``reliant cache``: the decoded images that runs share."""

from __future__ import annotations

from typing import Annotated

import typer

from . import options, words
from .screen import Screen


def cache(
    clear: Annotated[
        bool, typer.Option("--clear", help="Remove all entries that are not in the making.", show_default=False)
    ] = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """List or remove the decoded images that runs share.

    Nothing is lost with them but the time to decode again.

    \b
    Examples:
      reliant cache
      reliant cache --clear
    """
    from ..data import cache as images
    from .tables import ruled

    screen = Screen(json=json, quiet=quiet, verbose=verbose)
    freed = images.clear() if clear else None
    entries = images.entries()
    held = sum(entry.bytes for entry in entries)
    result = {
        "folder": str(images.folder()),
        "entries": [
            {
                "key": entry.key,
                "name": entry.name,
                "images": entry.shape[0],
                "size": entry.shape[1],
                "channels": entry.shape[3],
                "bytes": entry.bytes,
            }
            for entry in entries
        ],
        "bytes": held,
        "freed": freed,
    }
    rows = [
        (entry.name, f"{entry.shape[0]:,}", f"{entry.shape[1]} px", str(entry.shape[3]), words.size(entry.bytes))
        for entry in entries
    ]
    table = [ruled(("name", "images", "size", "channels", "bytes"), rows, numbers=("images", "size", "channels", "bytes"))]
    said = f"{len(entries)} entries, {words.size(held)}, in {images.folder()}"
    screen.result(result, *([] if not rows else table), *([] if freed is None else [f"{words.size(freed)} came free"]), said)
