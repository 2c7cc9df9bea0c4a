"""``reliant evaluate``: one protocol, round by round."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import options
from .screen import Screen

if TYPE_CHECKING:
    from .display import Display


def evaluate(
    target: Annotated[str, typer.Argument(metavar="RUN|WEIGHTS|random:NETWORK", help="What is scored.", show_default=False)],
    protocol: Annotated[str, typer.Option(metavar="P", help="knn, linear, few-shot or relations.")] = "knn",
    data: Annotated[
        str | None, typer.Option(metavar="SOURCE", help="Labelled images; the run's own where not given.", show_default=False)
    ] = None,
    test: Annotated[
        str | None,
        typer.Option(metavar="SOURCE", help="Test images; the test split of --data, else a fifth.", show_default=False),
    ] = None,
    labels: Annotated[
        str, typer.Option(metavar="L", help="auto, folders, the name of a column, or a .csv of id and label.")
    ] = "auto",
    rounds: Annotated[str, typer.Option(metavar="all|last|N", help="Which rounds.")] = "all",
    learners: Annotated[
        str, typer.Option(metavar="chosen|all", help="Also every learner before and after refinement.")
    ] = "chosen",
    budget: Annotated[str, typer.Option(metavar="full|small", help="small: a quicker search, fewer folds.")] = "full",
    seed: Annotated[int, typer.Option(metavar="S", help="Of folds and held-out tenths; of random:NETWORK.")] = 0,
    control: Annotated[
        Path | None, typer.Option(metavar="RUN", help="A control run to set beside it.", show_default=False)
    ] = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Score what was learned against labels.

    One protocol, round by round. No other command reads labels.

    \b
    Examples:
      reliant evaluate runs/demo
      reliant evaluate runs/photos --protocol linear --labels folders
      reliant evaluate runs/demo --protocol relations --control runs/demo-control
      reliant evaluate random:small --data fashion-mnist-sample
    """
    from ..evaluate.run import evaluate as scores_of
    from .display import Display

    screen = Screen(json=json, quiet=quiet, verbose=verbose)
    arguments: dict[str, Any] = {
        "protocol": protocol,
        "data": data,
        "test": test,
        "labels": labels,
        "rounds": rounds,
        "learners": learners,
        "budget": budget,
        "seed": seed,
    }
    with Display(screen) as display:
        display.update(f"scoring {target}")
        result = scores_of(target, **arguments, watch=_watch(display, target))
        if control is not None:
            beside = scores_of(control, **arguments, watch=_watch(display, str(control)))
            result["control"] = {"run": str(control), **beside}
    _show(screen, result)


def _watch(display: Display, name: str) -> Any:
    return lambda row: display.update(f"{name} · round {row['round']} is scored", worth_a_line=True)


def _show(screen: Screen, result: dict[str, Any]) -> None:
    from . import tables

    control = result.get("control")
    if control is not None and control["dataset"] != result["dataset"]:
        screen.warn(f"the control was scored on {control['dataset']}, not on {result['dataset']}; give both the same --data")
    title = f"{result['protocol']} on {result['dataset']}, split {result['split']}"
    shown = [tables.scores_table(result["rounds"])]
    if result["protocol"] == "relations":
        shown.append(tables.sizes_table(result["rounds"]))
    if control is not None:
        shown.append(tables.comparison_table(result["rounds"], control["rounds"]))
    screen.result(result, title, *shown)
