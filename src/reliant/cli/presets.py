"""``reliant presets``: what there is to start from."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from . import options
from .screen import Screen


def presets(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="One preset, with its keys.", show_default=False)] = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """List the presets, or show one with its keys.

    \b
    Examples:
      reliant presets
      reliant presets small
    """
    from ..config import preset_about, preset_names

    screen = Screen(json=json, quiet=quiet, verbose=verbose)
    if name is not None:
        _show_one(screen, name)
        return
    from .tables import ruled

    found: list[dict[str, Any]] = [{"name": one, **preset_about(one)} for one in preset_names()]
    rows = [(one["name"], one.get("title", "")) for one in found]
    screen.result({"presets": found}, ruled(("name", "title"), rows))


def _show_one(screen: Screen, name: str) -> None:
    import tomli_w

    from ..config import preset_about, preset_table
    from .tables import facts

    about, keys = preset_about(name), preset_table(name)
    screen.result({"name": name, "about": about, "keys": keys}, facts(list(about.items())), "", tomli_w.dumps(keys).rstrip())
