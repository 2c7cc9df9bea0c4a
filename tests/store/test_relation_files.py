from __future__ import annotations

import tempfile
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_folders import relations

from reliant.errors import DamagedError, StateError
from reliant.records import Evidence, Groups, Relations, Subsets, Triplets
from reliant.store import read_relations, write_relations

EVIDENCE = ["chance", "reliability", "shared", "survival", "agreement"]


def test_the_tables_are_those_of_the_contract(tmp_path: Path) -> None:
    write_relations(tmp_path / "new" / "folder", relations())
    folder = tmp_path / "new" / "folder"
    assert sorted(path.name for path in folder.iterdir()) == [
        "groups.parquet",
        "subsets.parquet",
        "summary.json",
        "triplets.parquet",
    ]

    groups = pq.read_table(folder / "groups.parquet")
    assert groups.column_names == ["id", "seed", "size", "members", "diameter", *EVIDENCE]
    assert groups.schema.types[:4] == [pa.int64(), pa.int64(), pa.int64(), pa.list_(pa.int64())]
    assert groups["members"].to_pylist() == [[4, 1], [0, 2, 3]]
    assert groups["seed"].to_pylist() == [4, 0]
    assert groups["size"].to_pylist() == [2, 3]
    assert groups["shared"].to_pylist() == [1.0, 0.5]
    assert groups["survival"].null_count == 0

    assert pq.read_table(folder / "subsets.parquet").to_pylist() == [{"group": 0, "subset": 1}]
    triplet = {"learner": 1, "anchor": 3, "similar": 4, "dissimilar": 2, "group": 1, "subset": 0, "kind": 1}
    assert pq.read_table(folder / "triplets.parquet").to_pylist() == [triplet]


@st.composite
def any_relations(draw: st.DrawFn) -> Relations:
    images = draw(st.integers(1, 30))
    member = st.integers(0, images - 1)
    lists = draw(st.lists(st.lists(member, min_size=1, max_size=5), max_size=6))
    column = st.lists(st.floats(width=32), min_size=len(lists), max_size=len(lists))
    evidence = {field.name: np.array(draw(column), np.float32) for field in fields(Evidence)}
    count = draw(st.integers(1, 4))
    subset = st.lists(st.integers(-1, count - 1), min_size=len(lists), max_size=len(lists))
    triplets = []
    for _ in range(draw(st.integers(0, 3))):
        rows = draw(st.integers(0, 4))
        number = st.lists(st.integers(0, 99), min_size=rows, max_size=rows)
        triplets.append(Triplets(**{field.name: np.array(draw(number), np.int32) for field in fields(Triplets)}))
    return Relations(
        groups=Groups.of(lists, images, diameters=draw(column)),
        evidence=Evidence(**evidence),
        subsets=Subsets(of_group=np.array(draw(subset), np.int32), count=count, terms={"distance": draw(st.floats(0, 9))}),
        triplets=triplets,
        summary={"groups": len(lists)},
    )


def assert_same_columns(left: Any, right: Any) -> None:
    for field in fields(left):
        one, other = getattr(left, field.name), getattr(right, field.name)
        if isinstance(one, np.ndarray):
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other)
        else:
            assert one == other


@given(any_relations())
@settings(deadline=None, max_examples=40)
def test_relations_come_back(given: Relations) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_relations(Path(folder), given)
        back = read_relations(Path(folder))
    assert_same_columns(back.groups, given.groups)
    assert_same_columns(back.evidence, given.evidence)
    assert_same_columns(back.subsets, given.subsets)
    assert len(back.triplets) == len(given.triplets)
    for one, other in zip(back.triplets, given.triplets):
        assert_same_columns(one, other)
    assert back.summary == given.summary


def test_the_same_relations_are_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_relations(tmp_path / name, relations())
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()


def test_a_folder_without_all_tables_is_named(tmp_path: Path) -> None:
    write_relations(tmp_path, relations())
    (tmp_path / "subsets.parquet").unlink()
    (tmp_path / "summary.json").unlink()
    with pytest.raises(StateError) as caught:
        read_relations(tmp_path)
    missing = "no subsets.parquet, summary.json"
    assert str(caught.value) == f"{tmp_path} is not a complete relations folder ({missing}); run 'reliant mine' again"


@pytest.mark.parametrize("name", ["groups.parquet", "subsets.parquet", "triplets.parquet", "summary.json"])
def test_a_damaged_table_is_named(tmp_path: Path, name: str) -> None:
    write_relations(tmp_path, relations())
    path = tmp_path / name
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(DamagedError, match=rf"{name} is damaged.*run the command that made it again$"):
        read_relations(tmp_path)


def test_a_table_of_somebody_else_is_named(tmp_path: Path) -> None:
    write_relations(tmp_path, relations())
    path = tmp_path / "groups.parquet"
    pq.write_table(pq.read_table(path).replace_schema_metadata({}), path)
    with pytest.raises(DamagedError, match=r"groups.parquet is damaged or not written by reliant"):
        read_relations(tmp_path)


def test_groups_in_another_order_are_refused(tmp_path: Path) -> None:
    write_relations(tmp_path, relations())
    path = tmp_path / "groups.parquet"
    pq.write_table(pq.read_table(path).sort_by([("id", "descending")]), path)
    with pytest.raises(DamagedError, match=r"the ids must be 0 … 1 in this order"):
        read_relations(tmp_path)
