"""Tables on the screen: facts, what a run will cost, its rounds, scores."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import words

if TYPE_CHECKING:
    from rich.table import Table

    from ..cost import Cost
    from ..trained import TrainedRun

_KINDS = {"initial": "initialisation", "local": "local learning", "refine": "refinement", "features": "features"}
# Measures that are no shares of anything.
_PLAIN = re.compile(r"(C|groups)(_|$)")
# Of a fold, a size or a subset: in the JSON and in the score files.
_DETAIL = re.compile(r"_(fold|size|subset)\d+")
# Of interest to who looks closer.
_ASIDE = re.compile(r"^C(_|$)|_held_out|_members|_mean")


def facts(rows: Iterable[tuple[str, str]]) -> Table:
    """Names and what they are, without lines."""
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(name, value)
    return table


def cost_table(cost: Cost, done: float) -> Table:
    """``done``: passes of the run that are there already."""
    parts = [(_KINDS.get(name, name), passes) for name, passes in cost.parts.items() if passes]
    rows = [
        ("passes", f"{words.number(cost.passes)}: " + ", ".join(f"{name} {words.number(passes)}" for name, passes in parts)),
        ("time", f"about {words.duration(cost.seconds)} at {cost.images_per_second:,.0f} images/s, measured"),
        ("disk", words.size(cost.disk_bytes)),
        ("memory", words.size(cost.memory_bytes)),
    ]
    if done:
        rows.insert(1, ("done already", f"{words.number(done)} passes"))
    return facts(rows)


def rounds_of(run: TrainedRun) -> list[dict[str, Any]]:
    """The rows of the manifest, with the mean size of a round's groups."""
    return [{**row, "mean_size": run.mean_size(row["round"])} for row in run.rounds]


def rounds_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    columns = ("round", "groups", "coverage", "mean size", "spread", "eff. rank")
    cells = [
        (
            str(row["round"]),
            f"{row['groups']:,}",
            words.percent(row["coverage"]),
            "–" if row["mean_size"] is None else f"{row['mean_size']:.1f}",
            f"{row['health']['spread']:.3f}",
            f"{row['health']['effective_rank']:.1f}",
            row["verdict"]["state"],
        )
        for row in rows
    ]
    return ruled((*columns, "verdict"), cells, numbers=columns)


def scores_table(rounds: Sequence[Mapping[str, Any]]) -> Table:
    """Rounds × measures; the learners of a round below it."""
    measures = headlines(rounds)
    cells = []
    for row in rounds:
        cells.append((str(row["round"]), *(_value(name, row.get(name)) for name in measures)))
        for learner in row.get("learners", []):
            name = f"{row['round']} · learner {learner['learner'] + 1} {learner['stage']}"
            cells.append((name, *(_value(measure, learner.get(measure)) for measure in measures)))
    columns = [name.replace("_", " ") for name in measures]
    return ruled(("round", *columns), cells, numbers=columns)


def sizes_table(rounds: Sequence[Mapping[str, Any]]) -> Table:
    """Of the groups of every size: how many, the correctness of their pairs, the share of images that they reach."""
    cells = []
    for row in rounds:
        sizes = sorted(int(name.removeprefix("groups_size")) for name in row if name.startswith("groups_size"))
        for size in sizes:
            shares = (_value(name, row[f"{name}_size{size}"]) for name in ("correctness", "coverage"))
            cells.append((str(row["round"]), str(size), _value("groups", row[f"groups_size{size}"]), *shares))
    columns = ("round", "size", "groups", "correctness", "coverage")
    return ruled(columns, cells, numbers=columns)


def comparison_table(rounds: Sequence[Mapping[str, Any]], control: Sequence[Mapping[str, Any]]) -> Table:
    """A row a round and measure: the run, the control of the same round, and how much the run is ahead."""
    beside = {row["round"]: row for row in control}
    measures = [name for name in headlines(rounds) if "_std" not in name]
    cells = []
    for row in rounds:
        for name in measures:
            run, other = row.get(name), beside.get(row["round"], {}).get(name)
            values = (_value(name, run), _value(name, other), _difference(name, run, other))
            cells.append((str(row["round"]), name.replace("_", " "), *values))
    return ruled(("round", "measure", "run", "control", "difference"), cells, numbers=("run", "control", "difference"))


def headlines(rounds: Sequence[Mapping[str, Any]]) -> list[str]:
    """The measures that are shown, in the order in which they come."""
    names = dict.fromkeys(name for row in rounds for name, value in row.items() if isinstance(value, float))
    return [name for name in names if not _DETAIL.search(name) and not _ASIDE.search(name)]


def _value(name: str, value: float | None) -> str:
    if value is None or value != value:
        return "–"
    return words.number(value) if _PLAIN.match(name) else words.percent(value, 2)


def _difference(name: str, run: float | None, control: float | None) -> str:
    if run is None or control is None or run != run or control != control:
        return "–"
    return f"{run - control:+,.0f}" if _PLAIN.match(name) else f"{100 * (run - control):+.2f}"


def ruled(columns: Sequence[str], rows: Iterable[Sequence[str]], numbers: Iterable[str] = ()) -> Table:
    """A table with a line below its head; the columns named in ``numbers`` are set to the right."""
    from rich import box
    from rich.table import Table

    table, right = Table(box=box.SIMPLE_HEAD, pad_edge=False), set(numbers)
    for name in columns:
        table.add_column(name, justify="right" if name in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table
