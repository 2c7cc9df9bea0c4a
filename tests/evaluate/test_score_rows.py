"""Measures as tidy rows, and rows as a table and back."""

from __future__ import annotations

import math
from dataclasses import fields

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from reliant.errors import DamagedError, UsageError
from reliant.evaluate.scores import from_table, rows, schema, to_table
from reliant.records import Score


def scored(measures, protocol="few-shot", **changes):
    context = {
        "dataset": "cifar10",
        "split": "test",
        "method": "reliant",
        "preset": "cifar10",
        "round": 2,
        "seed": 1,
        "n": 10_000,
        "passes": 140.5,
        "run": "4f1c",
    }
    return rows(measures, protocol=protocol, **{**context, **changes})


def test_a_row_a_measure_with_fold_and_layer_from_its_name():
    found = scored({"accuracy": 0.5, "accuracy_fold3": 0.4, "accuracy_std_final": 0.01, "accuracy_fold0_conv2": 0.3})
    assert [(row.measure, row.fold, row.layer, row.value) for row in found] == [
        ("accuracy", -1, "conv", 0.5),
        ("accuracy", 3, "conv", 0.4),
        ("accuracy_std", -1, "final", 0.01),
        ("accuracy", 0, "conv2", 0.3),
    ]
    assert found[0] == Score(
        dataset="cifar10",
        split="test",
        method="reliant",
        preset="cifar10",
        protocol="few-shot",
        version=1,
        measure="accuracy",
        round=2,
        learner="chosen",
        layer="conv",
        fold=-1,
        seed=1,
        value=0.5,
        n=10_000,
        passes=140.5,
        budget="full",
        run="4f1c",
    )


def test_relations_name_the_layer_that_was_mined():
    found = scored({"correctness_size4": 0.4, "coverage": 1}, protocol="relations", layer="final", learner="3")
    assert [(row.measure, row.layer, row.learner, row.value) for row in found] == [
        ("correctness_size4", "final", "3", 0.4),
        ("coverage", "final", "3", 1.0),
    ]


def test_an_unknown_protocol_has_no_rows():
    with pytest.raises(UsageError, match=r"^unknown protocol 'linaer'; did you mean 'linear'\?$"):
        scored({"accuracy": 0.5}, protocol="linaer")


def test_parquet_and_back(tmp_path):
    scores = scored({"accuracy": 0.1 + 0.2, "accuracy_fold0": 1.0}) + scored({"correctness": math.nan}, protocol="relations")
    pq.write_table(to_table(scores), tmp_path / "scores.parquet")
    table = pq.read_table(tmp_path / "scores.parquet")
    assert table.column_names == [field.name for field in fields(Score)]
    back = from_table(table)
    assert back[:2] == scores[:2]
    assert math.isnan(back[2].value)
    assert from_table(to_table([])) == []


def test_another_table_is_named_by_its_columns():
    table = to_table(scored({"accuracy": 0.5}))
    wrong = table.drop_columns(["fold"]).set_column(0, "dataset", pa.array([3])).append_column("extra", pa.array([1]))
    message = r"^not a table of scores: columns missing, unknown or of another type: dataset, fold, extra; evaluate again "
    with pytest.raises(DamagedError, match=message):
        from_table(wrong)
    assert schema().names == table.column_names
