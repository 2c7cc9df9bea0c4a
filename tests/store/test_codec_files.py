from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from reliant.errors import DataError
from reliant.records import Features, Snapshot
from reliant.store.codec import Value, read_value, settled, write_value

DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "uint64", "float16", "float32", "float64"]
leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)
trees = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
)
tables = st.dictionaries(st.text(max_size=5), trees, max_size=4)
arrays = st.sampled_from(DTYPES).flatmap(
    lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
)
names = st.text(min_size=1, max_size=6).filter(lambda name: name != "__metadata__")


def through_files(value: Value) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        return read_value(Path(folder), write_value(Path(folder), settled(value)))


def same(left: NDArray[Any], right: NDArray[Any]) -> bool:
    return left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()


@given(st.dictionaries(names, arrays, max_size=4), tables)
@settings(deadline=None, max_examples=50)
def test_a_snapshot_comes_back_to_the_bit(arrays: dict[str, NDArray[Any]], meta: dict[str, Any]) -> None:
    back = through_files(Snapshot(arrays=arrays, meta=meta))
    assert back.arrays.keys() == arrays.keys()
    assert all(same(back.arrays[name], array) for name, array in arrays.items())
    assert back.meta == meta


@given(tables)
@settings(deadline=None, max_examples=25)
def test_a_table_comes_back(table: dict[str, Any]) -> None:
    assert through_files(table) == table


@given(
    hnp.arrays("float32", hnp.array_shapes(min_dims=2, max_dims=2, min_side=1), elements=st.floats(-9, 9, width=32)),
    st.none() | st.integers(0, 9),
)
@settings(deadline=None, max_examples=25)
def test_features_come_back(values: NDArray[np.float32], learner: int | None) -> None:
    back = through_files(Features(values=values, layer="conv", learner=learner, view=2, normalised=False))
    assert same(back.values, values)
    assert (back.layer, back.learner, back.view, back.normalised) == ("conv", learner, 2, False)


def test_no_image_is_no_obstacle() -> None:
    assert through_files(Features(values=np.empty((0, 4), np.float32))).values.shape == (0, 4)


def test_numbers_without_dimension_and_numbers_that_are_none() -> None:
    back = through_files(Snapshot(arrays={"step": np.array(7), "loss": np.array(np.nan, np.float32)}, meta={"loss": np.nan}))
    assert back.arrays["step"].shape == ()
    assert back.arrays["step"].dtype == np.int64
    assert np.isnan(back.arrays["loss"])
    assert np.isnan(back.meta["loss"])


def test_a_settled_value_is_the_one_that_files_give() -> None:
    turned = np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3))
    kept = settled(Snapshot(arrays={"a": turned, "every other": np.arange(6)[::2]}, meta={"shape": (2, 3), "by": {1: "one"}}))
    assert isinstance(kept, Snapshot)
    assert kept.arrays["a"].flags.c_contiguous
    assert kept.meta == {"shape": [2, 3], "by": {"1": "one"}}
    back = through_files(kept)
    assert back.meta == kept.meta
    assert all(same(back.arrays[name], kept.arrays[name]) for name in kept.arrays)
    assert settled({"n": np.int32(3), "x": (np.float64(0.1),)}) == {"n": 3, "x": [0.1]}


def test_features_are_settled_in_rows() -> None:
    kept = settled(Features(values=np.asfortranarray(np.eye(3, dtype=np.float32))))
    assert isinstance(kept, Features)
    assert kept.values.flags.c_contiguous


def test_the_files_are_readable_by_others(tmp_path: Path) -> None:
    write_value(tmp_path, Snapshot(arrays={"w": np.zeros(2)}, meta={"epoch": 3}))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["arrays.safetensors", "meta.json"]
    assert json.loads((tmp_path / "meta.json").read_text()) == {"epoch": 3}


def test_what_no_format_holds_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"^a stage gives a Snapshot, Features, Relations or a dict, got list$"):
        settled([1])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"^set has no JSON form; give text, numbers, lists or tables$"):
        settled({"a": {1}})
    with pytest.raises(
        DataError, match=r"holds a value of kind 'cube', which this version of reliant does not know; use a newer one$"
    ):
        read_value(tmp_path, "cube")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"a": [1.0]}, "snapshot: a must be a NumPy array, got list"),
        ({"a": np.array(["x"])}, "snapshot: a must hold booleans, integers or floats, got <U1"),
        ({"a": np.array([None])}, "snapshot: a must hold booleans, integers or floats, got object"),
        ({"a": np.zeros(1, ">f4")}, "snapshot: a must hold booleans, integers or floats, got >f4"),
        ({"__metadata__": np.zeros(1)}, "snapshot: '__metadata__' is no name for an array; choose another"),
    ],
)
def test_a_snapshot_holds_numbers_only(arrays: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError) as caught:
        Snapshot(arrays=arrays)
    assert str(caught.value) == message


def test_the_meta_of_a_snapshot_is_json() -> None:
    with pytest.raises(
        DataError, match=r"^snapshot: meta must be JSON \(text, numbers, lists, tables by text\): Object of type set"
    ):
        Snapshot(arrays={}, meta={"a": {1}})
