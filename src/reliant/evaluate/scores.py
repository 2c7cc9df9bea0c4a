"""Measures as tidy rows, and tidy rows as a table: a :class:`~reliant.records.Score` a value, a column a field.

measures by name → list of Score ⇄ pyarrow table. Where the table is written is the store's affair.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from typing import TYPE_CHECKING

from ..errors import DamagedError, must
from ..records import Score
from .protocol import protocol as protocol_named
from .protocol import split_key

if TYPE_CHECKING:
    import pyarrow as pa


def rows(
    measures: Mapping[str, float],
    *,
    protocol: str,
    dataset: str,
    split: str,
    method: str,
    preset: str,
    round: int,
    seed: int,
    n: int,
    passes: float,
    run: str,
    learner: str = "chosen",
    layer: str = "conv",
    budget: str = "full",
) -> list[Score]:
    """A row a measure, in the given order; layer and fold are read from its name, ``layer`` is that of names without one."""
    version = protocol_named(protocol).version
    result = []
    for key, value in measures.items():
        measure, fold, where = split_key(key, layer)
        result.append(
            Score(
                dataset=dataset,
                split=split,
                method=method,
                preset=preset,
                protocol=protocol,
                version=version,
                measure=measure,
                round=round,
                learner=learner,
                layer=where,
                fold=fold,
                seed=seed,
                value=float(value),
                n=n,
                passes=passes,
                budget=budget,
                run=run,
            )
        )
    return result


def schema() -> pa.Schema:
    """The columns in the order of Score's fields."""
    import pyarrow as pa

    types = {"str": pa.string(), "int": pa.int64(), "float": pa.float64()}
    return pa.schema([pa.field(field.name, types[str(field.type)], nullable=False) for field in fields(Score)])


def to_table(scores: Iterable[Score]) -> pa.Table:
    import pyarrow as pa

    return pa.Table.from_pylist([asdict(score) for score in scores], schema=schema())


def from_table(table: pa.Table) -> list[Score]:
    """The rows of :func:`to_table`; another table is a DamagedError that names the columns in question."""
    expected = {field.name: field.type for field in schema()}
    found = {field.name: field.type for field in table.schema}
    wrong = [name for name, type_ in expected.items() if found.get(name) != type_]
    wrong += [name for name in found if name not in expected]
    must(
        not wrong,
        DamagedError,
        f"not a table of scores: columns missing, unknown or of another type: {', '.join(wrong)}; evaluate again to rewrite it",
    )
    return [Score(**row) for row in table.to_pylist()]
