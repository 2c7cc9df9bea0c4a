from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from reliant.learning import assignment
from reliant.learning.targets import TargetSpace, one_each, uniform_hubs

Table = NDArray[np.float64]


def cost(table: Table, columns: NDArray[np.int64]) -> float:
    return float(sum(table[row, column] for row, column in enumerate(columns)))


def least(table: Table) -> float:
    """Over all permutations."""
    return min(cost(table, np.array(one)) for one in itertools.permutations(range(len(table))))


def apart(features: Table, points: Table, plain: bool) -> Table:
    """Distances as plain loops."""
    squares = np.array([[sum((a - b) ** 2 for a, b in zip(one, other)) for other in points] for one in features])
    return np.sqrt(squares) if plain else squares


def spherical(count: int, seed: int, dimension: int = 3) -> NDArray[np.float32]:
    return np.asarray(uniform_hubs(seed, np.arange(count), dimension), dtype=np.float32)


@given(st.integers(1, 6), st.integers(0, 999))
@settings(deadline=None, max_examples=50)
def test_the_solution_is_the_best_of_all_permutations(count: int, seed: int) -> None:
    table = np.random.default_rng(seed).normal(size=(count, count))
    columns = assignment.solve(table)
    assert sorted(columns) == list(range(count))
    assert cost(table, columns) == pytest.approx(least(table))


@given(st.integers(1, 12), st.integers(0, 999))
@settings(deadline=None, max_examples=30)
def test_ties_stay(count: int, seed: int) -> None:
    sums = np.random.default_rng(seed).integers(0, 9, count)
    # Every permutation costs the same.
    table = sums[:, None] + sums[None, :]
    assert assignment.solve(table.astype(float)).tolist() == list(range(count))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_nothing_moves_where_a_cost_is_no_number(bad: float) -> None:
    table = np.array([[1.0, 0.0], [0.0, bad]])
    assert assignment.solve(table).tolist() == [0, 1]


@pytest.mark.parametrize("plain", [False, True])
@given(count=st.integers(2, 6), seed=st.integers(0, 999))
@settings(deadline=None, max_examples=25)
def test_a_block_is_dealt_out_as_well_as_can_be(plain: bool, count: int, seed: int) -> None:
    features, points = spherical(count, seed) * 1.3, spherical(count, seed + 1)
    dealt = assignment.reassign_block(torch.from_numpy(features), torch.from_numpy(points), plain)
    table = apart(features, points, plain)
    assert sorted(dealt) == list(range(count))
    assert cost(table, dealt) == pytest.approx(least(table), abs=1e-5)


def test_squared_and_plain_costs_by_hand() -> None:
    features = torch.tensor([[0.0], [1.0]])
    points = torch.tensor([[1.1], [3.0]])
    # Squared: 1.21 + 4 < 9 + 0.01; plain it is a tie, 1.1 + 2 = 3 + 0.1.
    assert assignment.reassign_block(features, points, plain=False).tolist() == [0, 1]
    table = assignment.costs(features, points, plain=True)
    np.testing.assert_allclose(table.numpy(), [[1.1, 3.0], [0.1, 2.0]], atol=1e-6)


def test_a_block_by_hand() -> None:
    features = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    points = torch.tensor([[0.0, 1.0], [-1.0, 0.0], [1.0, 0.0]])
    assert assignment.reassign_block(features, points, plain=False).tolist() == [2, 0, 1]
    assert assignment.reassign_block(features, features, plain=True).tolist() == [0, 1, 2]


@given(st.integers(1, 30), st.integers(2, 9), st.integers(0, 999), st.booleans())
@settings(deadline=None, max_examples=40)
def test_entries_are_permuted_in_blocks_and_never_at_a_higher_cost(count: int, block: int, seed: int, plain: bool) -> None:
    random = np.random.default_rng(seed)
    space = TargetSpace(one_each(count, 4, seed), torch.device("cpu"))
    features = torch.from_numpy(spherical(count, seed + 1, 4))
    before = random.permutation(count).astype(np.int32)
    kept = before.copy()
    order = random.permutation(count)
    after = assignment.reassign_entries(before, features, space.points, order, block, plain)

    def total(point: NDArray[np.int32]) -> float:
        distances = (features - space.points(torch.from_numpy(point).long())).norm(dim=1)
        return float(distances.sum() if plain else distances.square().sum())

    assert after.dtype == np.int32
    assert sorted(after) == list(range(count))
    assert total(after) <= total(before) + 1e-5
    for start in range(0, count, block):
        chosen = order[start : start + block]
        assert sorted(after[chosen]) == sorted(before[chosen])
    np.testing.assert_array_equal(before, kept)


def test_one_block_of_all_entries_is_the_best_assignment() -> None:
    space = TargetSpace(one_each(5, 3, 1), torch.device("cpu"))
    features = torch.from_numpy(spherical(5, 2))
    after = assignment.reassign_entries(np.arange(5, dtype=np.int32), features, space.points, np.arange(5), 5, plain=False)
    table = apart(features.numpy(), space.points(torch.arange(5)).numpy(), plain=False)
    assert cost(table, after.astype(np.int64)) == pytest.approx(least(table), abs=1e-5)


@given(st.integers(1, 6), st.integers(0, 999))
@settings(deadline=None, max_examples=30)
def test_groups_get_the_hubs_that_suit_them_best(count: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    sizes, means, hubs = random.integers(1, 9, count), spherical(count, seed) * 0.7, spherical(count, seed + 1)
    before = random.permutation(count).astype(np.int32)
    sums = (means * sizes[:, None]).astype(np.float32)
    after = assignment.groups_to_hubs(sums, hubs, before, np.arange(count), 6)
    # Every image of a group has its distance to the group's hub.
    table = apart(means, hubs, plain=False) * sizes[:, None]
    assert sorted(after) == list(range(count))
    assert cost(table, after.astype(np.int64)) == pytest.approx(least(table), abs=1e-5)


@given(st.integers(1, 20), st.integers(2, 7), st.integers(0, 999))
@settings(deadline=None, max_examples=30)
def test_groups_are_dealt_hubs_of_their_block_at_no_higher_cost(count: int, block: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    sums, hubs = spherical(count, seed), spherical(count, seed + 1)
    before, order = random.permutation(count).astype(np.int32), random.permutation(count)
    after = assignment.groups_to_hubs(sums, hubs, before, order, block)
    table = apart(sums, hubs, plain=False)
    assert sorted(after) == list(range(count))
    assert cost(table, after.astype(np.int64)) <= cost(table, before.astype(np.int64)) + 1e-6
    for start in range(0, count, block):
        chosen = order[start : start + block]
        assert sorted(after[chosen]) == sorted(before[chosen])


def test_groups_that_lie_on_their_hubs_stay() -> None:
    hubs = spherical(7, 3)
    held = np.array([3, 1, 0, 6, 5, 4, 2], dtype=np.int32)
    after = assignment.groups_to_hubs(hubs[held], hubs, held, np.arange(7), 4)
    np.testing.assert_array_equal(after, held)


@given(st.integers(1, 6), st.integers(0, 999))
@settings(deadline=None, max_examples=30)
def test_members_get_the_points_that_suit_them_best(count: int, seed: int) -> None:
    values, points = spherical(count, seed), spherical(count, seed + 1)
    found = assignment.members_to_points(values, points)
    table = apart(values, points, plain=False)
    assert sorted(found) == list(range(count))
    assert cost(table, found) == pytest.approx(least(table), abs=1e-5)


@pytest.mark.parametrize(
    ("count", "block", "sizes"), [(0, 4, []), (1, 4, []), (4, 4, [4]), (5, 4, [4]), (6, 4, [4, 2]), (3, 1, [])]
)
def test_blocks_follow_the_order_and_a_single_entry_is_left_out(count: int, block: int, sizes: list[int]) -> None:
    order = np.arange(count)[::-1].copy()
    found = list(assignment.blocks(order, block))
    assert [len(one) for one in found] == sizes
    assert [int(one) for chosen in found for one in chosen] == order[: sum(sizes)].tolist()
