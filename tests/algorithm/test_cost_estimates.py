from __future__ import annotations

import json
import math

import pytest

from reliant.cost import estimate, passes_of, readable
from reliant.records import Images
from tiny_runs import pictures, tiny


def images(count: int = 16, channels: int = 1) -> Images:
    return Images(pixels=pictures(count, channels=channels), ids=[str(row) for row in range(count)])


def test_passes_by_hand() -> None:
    settings = tiny(initial__passes=10, local__passes=4, refine__passes=2.5, rounds__count=3, subsets__count=5)
    assert passes_of(settings) == {"initial": 10, "local": 12, "refine": 7.5, "features": pytest.approx(4 / 3)}


def test_evidence_and_learners_side_by_side_cost_features() -> None:
    more = tiny(rounds__count=1, features__views=2, features__agreement=True)
    assert passes_of(more)["features"] == pytest.approx(2 * 4 / 3)
    assert passes_of(tiny(rounds__count=1, features__learners="all"))["features"] > passes_of(tiny(rounds__count=1))["features"]
    assert passes_of(tiny(rounds__count=1, rounds__choice="best"))["features"] == pytest.approx((2 + 2) / 3)


def test_given_weights_cost_no_initialisation() -> None:
    assert passes_of(tiny(), started=True)["initial"] == 0


def test_the_number_of_learners_changes_no_training() -> None:
    few, many = (passes_of(tiny(subsets__count=count)) for count in (1, 50))
    assert few == many


@pytest.mark.parametrize("channels", [1, 3])
def test_an_estimate_is_finite_and_adds_up(channels: int) -> None:
    cost = estimate(tiny(), images(channels=channels))
    assert cost.passes == pytest.approx(sum(passes_of(tiny()).values()))
    for value in (cost.seconds, cost.images_per_second, cost.disk_bytes, cost.memory_bytes):
        assert math.isfinite(value)
        assert value > 0
    shown = readable(cost)
    assert json.loads(json.dumps(shown)) == shown
    assert shown["parts"]["local"] == 6


def test_two_images_have_an_estimate() -> None:
    assert estimate(tiny(), images(2)).seconds > 0


def test_more_rounds_cost_more_disk() -> None:
    one, five = (estimate(tiny(rounds__count=count), images()) for count in (1, 5))
    assert five.disk_bytes > one.disk_bytes
    kept = estimate(tiny(rounds__count=5, store__features="all"), images())
    assert kept.disk_bytes > five.disk_bytes


@pytest.mark.parametrize("arm", [{"rounds__control": True}, {"subsets__mode": "whole"}, {"rounds__objective": "triplets"}])
def test_one_network_a_round_takes_the_disk_of_one(arm: dict[str, object]) -> None:
    one, arms = (estimate(tiny(**keys), images()).disk_bytes for keys in ({"subsets__count": 1}, {"subsets__count": 9, **arm}))
    assert arms == one
