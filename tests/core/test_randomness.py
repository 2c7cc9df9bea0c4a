from __future__ import annotations

import hashlib
import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from reliant.randomness import derive, generator, normals, uniforms

KEY = derive(3, "initial")
ITEMS = np.array([0, 1, 2**31, 2**40 + 5], dtype=np.int64)

keys = st.integers(0, 2**64 - 1)
items = st.lists(st.integers(0, 2**48), min_size=1, max_size=20)


def words_by_hand(key: int, item: int, column: int) -> int:
    """The documented hash, in Python's own unlimited integers."""

    def mix(state: int) -> int:
        for multiplier in (0x21F0AAAD, 0x735A2D97):
            state ^= state >> (16 if multiplier == 0x21F0AAAD else 15)
            state = state * multiplier % 2**32
        return state ^ (state >> 15)

    low, high = key % 2**32, key >> 32
    row = mix(item % 2**32 ^ low)
    row = mix(row ^ (item >> 32) % 2**32 ^ high)
    lane = mix(column * 0x9E3779B9 % 2**32 ^ high)
    return mix(mix(row ^ lane) ^ low)


def test_the_key_is_the_blake2b_of_its_typed_parts() -> None:
    digest = hashlib.blake2b(b"i3\x1fsinitial\x1fi1", digest_size=8).digest()
    assert derive(3, "initial", 1) == int.from_bytes(digest, "little")


def test_keys_are_pinned() -> None:
    assert derive(0) == 12901799172319015802
    assert derive(3, "initial", 1, 2) == 4032552480556518744


def test_a_key_depends_on_order_type_and_number_of_its_parts() -> None:
    variants = [(1, 2), (2, 1), ("1", 2), (1, "2"), ("1", "2"), (1, 2, 0), (12,), ("12",), (-1, 2)]
    assert len({derive(*one) for one in variants}) == len(variants)


def test_numpy_integers_give_the_key_of_pythons() -> None:
    assert derive(np.int64(3), "x") == derive(3, "x")  # type: ignore[arg-type]


def test_uniforms_are_pinned() -> None:
    numbers = uniforms(KEY, ITEMS, 3) * 2**24
    assert numbers.tolist() == [
        [13142533, 10635502, 3049500],
        [13646031, 7228344, 15275244],
        [11019802, 11367526, 12544940],
        [2120042, 10847084, 9714120],
    ]


def test_normals_are_pinned() -> None:
    expected = [
        [0.72709864, 1.25964129, 1.59070027],
        [1.54996479, 0.88407052, -0.97715378],
        [-0.02079786, 1.28389823, -1.46240699],
        [-0.45705119, -0.73891586, -0.24756394],
    ]
    np.testing.assert_allclose(normals(KEY, ITEMS, 3), expected, atol=1e-6)


def test_a_generator_is_pinned() -> None:
    assert generator(3, "x").integers(0, 1000, 5).tolist() == [876, 540, 669, 253, 758]


@given(keys, items, st.integers(1, 5))
@settings(deadline=None, max_examples=50)
def test_uniforms_are_the_documented_hash(key: int, item: list[int], count: int) -> None:
    drawn = uniforms(key, np.array(item, dtype=np.int64), count)
    expected = [[(words_by_hand(key, one, column) >> 8) * 2.0**-24 for column in range(count)] for one in item]
    assert drawn.dtype == np.float32
    assert drawn.tolist() == expected


@given(keys, items, st.integers(1, 9))
@settings(deadline=None, max_examples=50)
def test_torch_draws_the_bits_of_numpy(key: int, item: list[int], count: int) -> None:
    held = np.array(item, dtype=np.int64)
    drawn = uniforms(key, torch.from_numpy(held), count)
    assert drawn.dtype == torch.float32
    assert drawn.numpy().tobytes() == uniforms(key, held, count).tobytes()


@given(keys, items, st.integers(1, 9))
@settings(deadline=None, max_examples=50)
def test_torch_draws_the_normals_of_numpy_up_to_rounding(key: int, item: list[int], count: int) -> None:
    held = np.array(item, dtype=np.int64)
    drawn = normals(key, torch.from_numpy(held), count)
    assert drawn.shape == (len(item), count)
    assert drawn.dtype == torch.float32
    np.testing.assert_allclose(drawn.numpy(), normals(key, held, count), atol=2e-6)


@given(keys, items)
@settings(deadline=None, max_examples=30)
def test_an_item_draws_the_same_in_any_batch(key: int, item: list[int]) -> None:
    together = uniforms(key, np.array(item, dtype=np.int64), 3)
    alone = [uniforms(key, np.array([one], dtype=np.int64), 3)[0] for one in item]
    assert together.tobytes() == np.stack(alone).tobytes()
    assert (
        normals(key, np.array(item, dtype=np.int64), 4)[-1:].tobytes()
        == normals(key, np.array(item[-1:], dtype=np.int64), 4).tobytes()
    )


def test_more_columns_leave_the_first_ones() -> None:
    assert uniforms(KEY, ITEMS, 7)[:, :3].tobytes() == uniforms(KEY, ITEMS, 3).tobytes()


def test_normals_by_box_and_muller() -> None:
    first, second, angle, turn = uniforms(KEY, ITEMS[:1], 4)[0].astype(float)
    radius = [np.sqrt(-2 * np.log(1 - first)), np.sqrt(-2 * np.log(1 - second))]
    turns = [2 * np.pi * angle, 2 * np.pi * turn]
    expected = [radius[0] * np.cos(turns[0]), radius[1] * np.cos(turns[1]), radius[0] * np.sin(turns[0])]
    np.testing.assert_allclose(normals(KEY, ITEMS[:1], 3)[0], expected, rtol=1e-5)


def test_uniforms_are_uniform() -> None:
    drawn = uniforms(KEY, np.arange(20_000, dtype=np.int64), 4).astype(np.float64)
    assert drawn.min() >= 0
    assert drawn.max() < 1
    assert drawn.mean() == pytest.approx(0.5, abs=0.005)
    assert drawn.var() == pytest.approx(1 / 12, abs=0.002)
    counts = np.bincount((drawn.ravel() * 16).astype(int), minlength=16)
    assert np.abs(counts - 5000).max() < 5 * np.sqrt(5000)


def test_columns_and_neighbouring_items_and_keys_are_unrelated() -> None:
    drawn = uniforms(KEY, np.arange(20_000, dtype=np.int64), 3).astype(np.float64)
    other = uniforms(KEY + 1, np.arange(20_000, dtype=np.int64), 3).astype(np.float64)
    pairs = [*itertools.combinations(drawn.T, 2), (drawn[1:, 0], drawn[:-1, 0]), (drawn[:, 0], other[:, 0])]
    assert max(abs(np.corrcoef(one, two)[0, 1]) for one, two in pairs) < 0.03


def test_normals_are_normal() -> None:
    drawn = normals(KEY, np.arange(20_000, dtype=np.int64), 3).astype(np.float64)
    assert np.isfinite(drawn).all()
    assert drawn.mean() == pytest.approx(0, abs=0.02)
    assert drawn.var() == pytest.approx(1, abs=0.03)
    assert (drawn**3).mean() == pytest.approx(0, abs=0.06)
    assert (drawn**4).mean() == pytest.approx(3, abs=0.15)
    assert np.abs(np.corrcoef(drawn.T) - np.eye(3)).max() < 0.03


@pytest.mark.parametrize("count", [0, 1, 2])
def test_no_items_draw_nothing(count: int) -> None:
    nobody = np.empty(0, dtype=np.int64)
    assert uniforms(KEY, nobody, count).shape == (0, count)
    assert normals(KEY, nobody, count).shape == (0, count)
    assert uniforms(KEY, torch.from_numpy(nobody), count).shape == (0, count)


def test_torchs_and_numpys_global_generators_are_left_alone() -> None:
    before, numbers = torch.random.get_rng_state(), np.random.get_state()[1].tobytes()  # noqa: NPY002
    uniforms(KEY, torch.arange(3), 2)
    normals(KEY, torch.arange(3), 2)
    generator(KEY).random(3)
    assert torch.equal(before, torch.random.get_rng_state())
    assert numbers == np.random.get_state()[1].tobytes()  # noqa: NPY002
