from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reliant.store.digest import canonical, digest, file_digest, stage_digest

leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)
trees = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
)


def shuffled(value: object) -> object:
    if isinstance(value, dict):
        return {name: shuffled(value[name]) for name in reversed(list(value))}
    return [shuffled(one) for one in value] if isinstance(value, list) else value


def test_one_spelling() -> None:
    assert canonical({"b": [1, 2.0, True, None], "a": "é"}) == b'{"a":"\\u00e9","b":[1,2.0,true,null]}'


@given(trees)
@settings(deadline=None, max_examples=50)
def test_the_order_of_names_does_not_matter(value: object) -> None:
    assert digest(value) == digest(shuffled(value))


@given(st.floats(allow_nan=False), st.floats(allow_nan=False))
@settings(deadline=None, max_examples=50)
def test_floats_are_the_same_exactly_when_their_bits_are(left: float, right: float) -> None:
    assert (digest(left) == digest(right)) == (struct.pack("d", left) == struct.pack("d", right))


def test_neighbouring_floats_differ() -> None:
    assert digest(0.1) != digest(np.nextafter(0.1, 1))


def test_numpy_numbers_are_plain_ones_and_other_objects_are_refused() -> None:
    assert digest({"k": np.int64(3), "x": np.float64(0.1)}) == digest({"k": 3, "x": 0.1})
    with pytest.raises(TypeError, match=r"^object has no JSON form; give text, numbers, lists or tables$"):
        digest(object())


def test_a_stage_is_its_version_keys_and_inputs_in_order() -> None:
    same = stage_digest(1, {"a": 1, "b": 2}, ["x", "y"])
    assert same == stage_digest(1, {"b": 2, "a": 1}, ["x", "y"])
    others = [
        stage_digest(2, {"a": 1, "b": 2}, ["x", "y"]),
        stage_digest(1, {"a": 1, "b": 3}, ["x", "y"]),
        stage_digest(1, {"a": 1, "b": 2}, ["y", "x"]),
        stage_digest(1, {"a": 1, "b": 2}, ["xy"]),
    ]
    assert len({same, *others}) == 5


def test_digests_last(tmp_path: Path) -> None:
    """Run folders of earlier versions must be resumed: these may never change."""
    (tmp_path / "file").write_bytes(b"abc")
    assert stage_digest(1, {"k": 0.5}, ["x"]) == "d6991578c08acfd7bd7ace8a8fa08306"
    assert file_digest(tmp_path / "file") == "cf4ab791c62b8d2b2109c90275287816"
