"""``reliant doctor``: what this machine can do, and what is wrong with a source."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from . import options, words
from .screen import Screen

_NO_TORCH = "not installed: fit, embed and evaluate need it; pip install 'reliant[train]'"


def doctor(
    source: Annotated[
        str | None, typer.Argument(metavar="SOURCE", help="Images to look through as well.", show_default=False)
    ] = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Say what this machine can do, and what is wrong with a source.

    \b
    Examples:
      reliant doctor
      reliant doctor photos/
    """
    from ..config import load
    from ..doctor import examine_machine, examine_source
    from .tables import facts

    screen = Screen(json=json, quiet=quiet, verbose=verbose)
    machine = examine_machine()
    found = None if source is None else examine_source(source, load())
    shown: list[Any] = [facts(_machine(machine))]
    if found is not None:
        shown += ["", facts(_source(found))]
        shown += [f"left out: {bad['id']}: {bad['reason']}" for bad in found["quarantined"]]
        shown += found["problems"] or ["nothing is wrong with it"]
    screen.result({"machine": machine, "source": found}, *shown)


def _machine(found: dict[str, Any]) -> list[tuple[str, str]]:
    rows = [
        ("reliant", found["reliant"]),
        ("python", f"{found['python']}, {found['system']}, {found['cores']} cores"),
        ("torch", _NO_TORCH),
        ("faiss", found["faiss"] or "not installed: neighbours are sought with NumPy, with the same result"),
        ("free disk", words.size(found["free_disk_bytes"])),
        ("RELIANT_DATA", found["data_folder"] or "not set"),
        ("known here", ", ".join(found["data_sets"]) or "none"),
        ("image cache", f"{found['cache_folder']}, {found['cache_entries']} entries, {words.size(found['cache_bytes'])}"),
    ]
    torch = found["torch"]
    if torch is not None:
        rows[2:3] = [
            ("torch", torch["version"]),
            ("device", f"{torch['device']} ({torch['name']}), {torch['threads']} threads"),
            ("bf16 products", f"{torch['bf16_gflops']:,.0f} Gflop/s"),
            ("same bits", "promised" if torch["bits_promised"] else "not promised: the same result up to rounding"),
        ]
    return rows


def _source(found: dict[str, Any]) -> list[tuple[str, str]]:
    sizes = found["sizes"]
    rows = [
        ("source", found["source"]),
        ("images", f"{found['images']:,}, of which {found['usable']:,} can be used"),
        ("channels", f"{found['grey']:,} grey, {found['colour']:,} in colour"),
    ]
    if sizes["different"]:
        smallest, largest, most = (" × ".join(str(side) for side in sizes[name]) for name in ("smallest", "largest", "most"))
        span = most if sizes["different"] == 1 else f"{smallest} to {largest}, most often {most}"
        rows.append(("pixels", span))
    return rows
