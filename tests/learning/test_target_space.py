from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from reliant.learning.targets import TargetSpace, around_hubs, measured_spread, one_each, uniform_hubs
from reliant.randomness import derive, normals
from reliant.records import Groups, Targets

CPU = torch.device("cpu")


def numbers(*points: int) -> torch.Tensor:
    return torch.tensor(points, dtype=torch.int64)


def owners(*groups: int) -> np.ndarray:
    return np.array(groups, dtype=np.int32)


def test_hubs_lie_on_the_sphere_and_are_the_same_in_numpy_and_torch() -> None:
    drawn = uniform_hubs(5, np.arange(40), 16)
    np.testing.assert_allclose(np.linalg.norm(drawn, axis=1), 1, rtol=1e-6)
    np.testing.assert_allclose(uniform_hubs(5, torch.arange(40), 16).numpy(), drawn, atol=1e-6)


def test_hubs_are_normals_brought_to_the_sphere() -> None:
    drawn = normals(derive(5, "hubs"), np.arange(3), 4)
    np.testing.assert_allclose(uniform_hubs(5, np.arange(3), 4), drawn / np.linalg.norm(drawn, axis=1, keepdims=True))


def test_hubs_are_uniform_on_the_sphere() -> None:
    drawn = uniform_hubs(5, np.arange(4000), 8).astype(np.float64)
    np.testing.assert_allclose(drawn.mean(axis=0), 0, atol=0.03)
    np.testing.assert_allclose(drawn.T @ drawn / 4000, np.eye(8) / 8, atol=0.02)


def test_one_each_is_a_hub_each() -> None:
    space = TargetSpace(one_each(10, 6, 3), CPU)
    assert len(space) == 10
    assert torch.equal(space.points(numbers(4, 0, 9)), uniform_hubs(3, numbers(4, 0, 9), 6))
    assert torch.equal(space.hub(numbers(4, 0)), numbers(4, 0))


@given(st.lists(st.integers(0, 11), min_size=1, max_size=8), st.booleans())
@settings(deadline=None, max_examples=30)
def test_a_point_is_the_same_in_any_batch(points: list[int], projected: bool) -> None:
    space = TargetSpace(around_hubs(owners(*[0, 0, 0, 1, 1, 2] * 2), 6, 3, 0.4, projected), CPU)
    together = space.points(numbers(*points))
    alone = torch.cat([space.points(numbers(one)) for one in points])
    torch.testing.assert_close(together, alone, rtol=0, atol=1e-6)
    again = TargetSpace(around_hubs(owners(*[0, 0, 0, 1, 1, 2] * 2), 6, 3, 0.4, projected), CPU)
    assert torch.equal(again.points(numbers(*points)), together)


def test_a_point_by_hand() -> None:
    targets = around_hubs(owners(0, 0, 1), 4, 3, 0.5, projected=False)
    assert targets.hubs is not None
    expected = targets.hubs[1] + normals(derive(3, "points"), np.array([2]), 4)[0] * 0.5 / 2
    np.testing.assert_allclose(TargetSpace(targets, CPU).points(numbers(2))[0].numpy(), expected, atol=1e-6)
    flat = TargetSpace(around_hubs(owners(0, 0, 1), 4, 3, 0.5, projected=True), CPU).points(numbers(2))[0].numpy()
    np.testing.assert_allclose(flat, expected / np.linalg.norm(expected), atol=1e-6)


def test_projected_points_lie_on_the_sphere_and_others_do_not() -> None:
    entries = np.repeat(np.arange(5, dtype=np.int32), 8)
    for projected in (True, False):
        lengths = TargetSpace(around_hubs(entries, 16, 3, 0.6, projected), CPU).points(torch.arange(40)).norm(dim=1)
        assert torch.allclose(lengths, torch.ones(40), atol=1e-6) == projected


def test_without_spread_a_point_is_its_hub() -> None:
    targets = around_hubs(owners(0, 0, 1), 4, 3, 0.0, projected=True)
    assert targets.hubs is not None
    np.testing.assert_array_equal(TargetSpace(targets, CPU).points(numbers(0, 1, 2)).numpy(), targets.hubs[[0, 0, 1]])


@pytest.mark.parametrize("spread", [0.1, 0.3, 1.0])
def test_points_are_as_far_from_their_hub_as_the_spread_says(spread: float) -> None:
    entries = np.repeat(np.arange(50, dtype=np.int32), 40)
    targets = around_hubs(entries, 64, 3, spread, projected=False)
    assert targets.hubs is not None
    away = TargetSpace(targets, CPU).points(torch.arange(2000)).numpy() - targets.hubs[entries]
    assert math.sqrt((away**2).sum(axis=1).mean()) == pytest.approx(spread, rel=0.03)


def test_another_key_gives_other_hubs_and_points() -> None:
    spaces = [TargetSpace(around_hubs(owners(0, 1), 4, key, 0.5, projected=True), CPU) for key in (3, 4)]
    assert not torch.allclose(spaces[0].points(numbers(0, 1)), spaces[1].points(numbers(0, 1)))


def test_given_hubs_are_taken() -> None:
    hubs = np.eye(2, 4, dtype=np.float32)
    targets = around_hubs(owners(1, 0), 4, 3, 0.0, projected=True, hubs=hubs)
    np.testing.assert_array_equal(TargetSpace(targets, CPU).points(numbers(0, 1)).numpy(), hubs[[1, 0]])


def test_no_entries_have_no_points() -> None:
    targets = around_hubs(owners(), 4, 3, 0.5, projected=True)
    assert (targets.points, targets.hubs.shape) == (0, (0, 4))  # type: ignore[union-attr]
    assert TargetSpace(targets, CPU).points(numbers()).shape == (0, 4)


def planted(spread: float, groups: int = 60, size: int = 12, dimension: int = 64) -> tuple[np.ndarray, Groups]:
    """Images that lie as the points of a target space do."""
    entries = np.repeat(np.arange(groups, dtype=np.int32), size)
    space = TargetSpace(around_hubs(entries, dimension, 9, spread, projected=True), CPU)
    values = space.points(torch.arange(len(entries))).numpy()
    return values, Groups.of(np.arange(len(entries)).reshape(groups, size).tolist(), images=len(entries))


@pytest.mark.parametrize("spread", [0.2, 0.5, 1.0])
def test_a_planted_spread_is_measured(spread: float) -> None:
    values, groups = planted(spread)
    assert measured_spread(values, groups, shrink=1.0, seed=0) == pytest.approx(spread, rel=0.05)


def test_the_spread_shrinks_with_its_factor() -> None:
    values, groups = planted(0.5)
    whole, half = (measured_spread(values, groups, shrink, seed=0) for shrink in (1.0, 0.5))
    ratios = [spread**2 / (1 + spread**2) for spread in (whole, half)]
    assert ratios[1] == pytest.approx(ratios[0] / 4)


def test_the_spread_by_hand() -> None:
    # Two groups of two; all pairs of one group are 0.6 apart, pairs across 1 or √1.36.
    values = np.array([[0, 0], [0.6, 0], [0, 1], [0.6, 1]], dtype=np.float32)
    between = (2 * 0.36 + 2 * 1 + 2 * 1.36) / 6
    ratio = 0.36 / between
    found = measured_spread(values, Groups.of([[0, 1], [2, 3]], images=4), 1.0, 0, sample=200_000)
    assert found == pytest.approx(math.sqrt(ratio / (1 - ratio)), rel=0.02)


def test_nothing_to_measure_is_no_spread() -> None:
    values = np.random.default_rng(0).random((4, 3), dtype=np.float32)
    assert measured_spread(values, Groups.of([], images=4), 1.0, 0) == 0
    assert measured_spread(values, Groups.of([[0], [1]], images=4), 1.0, 0) == 0
    assert measured_spread(np.ones((4, 3), np.float32), Groups.of([[0, 1]], images=4), 1.0, 0) == 0
    assert measured_spread(values[:1], Groups.of([], images=1), 1.0, 0) == 0


def test_groups_wider_than_chance_have_a_bounded_spread() -> None:
    values = np.array([[1, 0], [-1, 0], [0.1, 0], [-0.1, 0]], dtype=np.float32)
    found = measured_spread(values, Groups.of([[0, 1]], images=4), 1.0, 0)
    assert found == pytest.approx(math.sqrt(0.95 / 0.05))


def test_the_spread_is_the_same_for_a_seed() -> None:
    values, groups = planted(0.5, groups=10)
    assert measured_spread(values, groups, 1.0, 3) == measured_spread(values, groups, 1.0, 3)
    assert measured_spread(values, groups, 1.0, 3) != measured_spread(values, groups, 1.0, 4)


def test_a_spread_may_not_be_negative() -> None:
    with pytest.raises(Exception, match="spread must be ≥ 0"):
        Targets(key=1, points=1, dimension=2, spread=-1.0)
