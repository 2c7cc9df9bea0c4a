from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from reliant.config import Health
from reliant.learning.features import unit_rows
from reliant.learning.health import measures, sample, verdict
from reliant.records import Floats, Neighbours


def features(values: Any) -> Floats:
    return np.asarray(values, dtype=np.float32)


def scattered(count: int = 400, dimension: int = 16, rank: int | None = None) -> Floats:
    """Random directions that fill ``rank`` dimensions."""
    values = np.random.default_rng(0).normal(size=(count, dimension))
    values[:, dimension if rank is None else rank :] = 0
    return unit_rows(values.astype(np.float32))


@pytest.mark.parametrize("count", [1, 5, 1024, 3000])
def test_a_sample_is_of_different_images_and_the_same_for_a_seed(count: int) -> None:
    rows = sample(count, seed=3)
    assert rows.dtype == np.int32
    assert len(rows) == min(count, 1024)
    assert (np.diff(rows) > 0).all()
    assert rows.min() >= 0
    assert rows.max() < count
    np.testing.assert_array_equal(rows, sample(count, seed=3))


def near(*rows: tuple[float, float]) -> Neighbours:
    distances = np.array(rows, dtype=np.float32)
    return Neighbours(ids=np.zeros(distances.shape, np.int32), distances=distances)


def epochs(*losses: float) -> list[dict[str, Any]]:
    return [{"terms": {"loss": loss}, "reassigned": False} for loss in losses]


def test_random_directions_fill_their_space_and_are_a_unit_apart() -> None:
    measured = measures(scattered(), None, seed=0)
    assert measured["spread"] == pytest.approx(1, abs=0.05)
    assert measured["effective_rank"] == pytest.approx(16, abs=1)


@pytest.mark.parametrize("rank", [2, 3, 8])
def test_the_effective_rank_is_that_of_equal_directions(rank: int) -> None:
    assert measures(scattered(rank=rank), None, seed=0)["effective_rank"] == pytest.approx(rank, rel=0.05)


@pytest.mark.parametrize("shape", [(6, 40), (40, 6)])
def test_the_effective_rank_is_that_of_the_singular_values(shape: tuple[int, int]) -> None:
    values = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    squares = np.linalg.svd(values - values.mean(axis=0), compute_uv=False) ** 2
    shares = [one / squares.sum() for one in squares if one > 1e-9 * squares.sum()]
    expected = math.exp(-sum(share * math.log(share) for share in shares))
    assert measures(features(values), None, seed=0)["effective_rank"] == pytest.approx(expected, rel=1e-5)


def test_the_spread_of_two_kinds_of_images() -> None:
    values = np.repeat([[1.0, 0.0], [0.0, 1.0]], 500, axis=0)
    assert measures(features(values), None, seed=0)["spread"] == pytest.approx(0.5, abs=0.05)


def test_the_neighbour_ratio_by_hand() -> None:
    measured = measures(scattered(3), near((0.1, 0.2), (0.3, 0.4), (0.0, 0.0)), seed=0)
    assert measured["neighbour_ratio"] == pytest.approx((0.5 + 0.75) / 2)
    assert measures(scattered(3), near((0, 0), (0, 0), (0, 0)), seed=0)["neighbour_ratio"] == 1
    single = Neighbours(ids=np.zeros((3, 1), np.int32), distances=np.zeros((3, 1), np.float32))
    assert "neighbour_ratio" not in measures(scattered(3), single, seed=0)


@pytest.mark.parametrize("count", [1, 2, 5, 3000])
def test_equal_images_have_no_spread_and_one_direction(count: int) -> None:
    measured = measures(features(np.ones((count, 4))), None, seed=0)
    assert measured == {"spread": 0, "effective_rank": pytest.approx(1, abs=1e-6)}


def test_measures_are_the_same_for_a_seed() -> None:
    assert measures(scattered(3000), None, seed=5) == measures(scattered(3000), None, seed=5)


def test_a_live_representation_is_healthy() -> None:
    found = verdict({"spread": 0.8, "effective_rank": 40.0}, 128, epochs(3.0, 2.0, 1.0), Health())
    assert found.healthy


def test_features_that_are_nearly_the_same_have_collapsed() -> None:
    found = verdict({"spread": 0.0123, "effective_rank": 40.0}, 128, [], Health())
    assert found.state == "collapsed"
    assert found.reason == "all images have nearly the same features: mean distance 0.0123 of random points' 1.0"
    assert found.advice == "lower the rate (initial.rate, local.rate) or the weight decay, or use a larger batch"


@pytest.mark.parametrize(("rank", "dimension", "state"), [(2.5, 128, "collapsed"), (2.6, 128, "ok"), (1.4, 8, "collapsed")])
def test_features_that_fill_too_few_dimensions_have_collapsed(rank: float, dimension: int, state: str) -> None:
    found = verdict({"spread": 0.8, "effective_rank": rank}, dimension, [], Health())
    assert found.state == state
    if state == "collapsed":
        assert found.reason == f"the features fill {rank} of {dimension} dimensions"


def test_a_loss_that_does_not_fall_is_flat() -> None:
    found = verdict({"spread": 0.8, "effective_rank": 40.0}, 128, epochs(2.0, 2.1, 2.0, 1.999, 2.0, 2.0), Health())
    assert found.state == "flat"
    assert found.reason == "the loss did not fall: 2.0000 in the first epoch, 1.9990 at best after it"
    assert "initial.rate" in found.advice


def test_a_loss_is_not_called_flat_too_early_or_where_it_fell() -> None:
    alive = {"spread": 0.8, "effective_rank": 40.0}
    assert verdict(alive, 128, epochs(*[2.0] * 5), Health()).healthy
    assert verdict(alive, 128, epochs(2.0, 2.0, 2.0, 1.98, 2.0, 2.0), Health()).healthy
    assert verdict(alive, 128, [], Health()).healthy


def test_epochs_that_re_assign_are_not_compared_with_others() -> None:
    alive = {"spread": 0.8, "effective_rank": 40.0}
    rows = epochs(1.0, 2.0, 2.0, 1.0, 2.0, 2.0, 1.0, 2.0, 2.0)
    for place in (0, 3, 6):
        rows[place]["reassigned"] = True
    assert verdict(alive, 128, rows, Health()).state == "flat"
    assert verdict(alive, 128, rows[:-1], Health()).healthy


def test_a_loss_that_does_not_fall_is_no_fault_of_a_warm_start() -> None:
    alive = {"spread": 0.8, "effective_rank": 40.0}
    assert verdict(alive, 128, epochs(*[2.0] * 9), Health(), from_scratch=False).healthy
    assert verdict({**alive, "spread": 0.0}, 128, [], Health(), from_scratch=False).state == "collapsed"


def test_lists_in_another_order_are_sorted_for_the_ratio() -> None:
    assert measures(scattered(2), near((0.4, 0.1), (0.3, 0.3)), seed=0)["neighbour_ratio"] == pytest.approx((0.25 + 1) / 2)


def test_what_counts_as_collapsed_can_be_set() -> None:
    measured = {"spread": 0.3, "effective_rank": 20.0}
    assert verdict(measured, 128, [], Health(spread=0.4)).state == "collapsed"
    assert verdict(measured, 128, [], Health(rank=0.2)).state == "collapsed"
    assert verdict(measured, 128, [], Health()).healthy
