from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from relation_oracles import diameter, distance, feature_sets, features_of, random_groups

from reliant.config import Chance
from reliant.errors import DataError, UsageError
from reliant.randomness import generator
from reliant.records import Features, Groups
from reliant.relations.chance import chance_of, distinct_draws, percentile_of, thresholds
from reliant.relations.neighbours import nearest


def test_the_percentile_is_the_first_sample_that_reaches_it() -> None:
    samples = np.float32([np.arange(1, 11), np.arange(10, 101, 10)])
    assert percentile_of(samples, 3.0).tolist() == [1, 10]
    assert percentile_of(samples, 25.0).tolist() == [3, 30]
    assert percentile_of(samples, 30.0).tolist() == [3, 30]
    assert percentile_of(samples, 30.1).tolist() == [4, 40]
    assert percentile_of(samples, 100.0).tolist() == [10, 100]


@given(st.integers(1, 40), st.data())
def test_draws_are_distinct_and_in_range(total, data) -> None:
    size = data.draw(st.integers(1, total))
    drawn = distinct_draws(generator(total, size), total, 20, size)
    assert all(len(set(row)) == size and min(row) >= 0 and max(row) < total for row in drawn.tolist())


def test_every_ordered_draw_is_equally_likely() -> None:
    drawn = distinct_draws(generator(0, "likely"), 4, 24_000, 2)
    counts = Counter(map(tuple, drawn.tolist()))
    assert len(counts) == 12
    assert all(1800 < count < 2200 for count in counts.values())


@settings(deadline=None, max_examples=25)
@given(feature_sets(most=30), st.integers(1, 8), st.integers(0, 100), st.sampled_from([3.0, 50.0, 100.0]))
def test_random_limits_are_those_of_loops(features, cap, seed, percentile) -> None:
    config = Chance(groups=30, percentile=percentile)
    found = thresholds(features, None, config, cap, seed)
    size = min(cap, len(features))
    groups = distinct_draws(generator(seed, "chance"), len(features), 30, size).tolist()
    assert found.cap == size
    assert found.samples.shape == (size - 1, 30)
    for row, reach in enumerate(range(2, size + 1)):
        expected = sorted(diameter(features, group[:reach]) for group in groups)
        assert found.samples[row].tolist() == expected
        assert found.limits[0, row] == expected[int(np.ceil(percentile * 30 / 100)) - 1]


def test_the_pairs_null_holds_every_size_to_the_limit_of_two() -> None:
    features = features_of("random", 50, 4, 0)
    pairs = thresholds(features, None, Chance(groups=200, null="pairs"), 6, 1)
    random = thresholds(features, None, Chance(groups=200), 6, 1)
    assert np.array_equal(pairs.samples, random.samples)
    assert pairs.limits.tolist() == [[random.limits[0, 0]] * 5]


def test_the_local_null_follows_its_description_step_by_step() -> None:
    features = features_of("random", 40, 3, 7)
    lists = nearest(features, 5)
    found = thresholds(features, lists, Chance(groups=100, pool=12, null="local", percentile=10), 4, 3)
    random = generator(3, "chance", "local")
    references = sorted(distinct_draws(random, 40, 1, 40)[0].tolist())
    drawn = distinct_draws(random, 12, 100, 4)
    reaches, means, rows = [], [], []
    for group in range(100):
        reference = references[group % 40]
        others = sorted((distance(features, reference, other), other) for other in range(40) if other != reference)
        pool = [reference, *(other for _, other in others[:11])]
        members = [pool[place] for place in drawn[group]]
        rows.append([float(diameter(features, members[:size])) for size in (2, 3, 4)])
        means.append(sum(rows[-1]) / 3)
        reaches.append(float(lists.distances[reference, -1]))
    slope, offset = np.polyfit(reaches, means, 1)
    assert slope > 0
    scales = [offset + slope * float(reach) for reach in lists.distances[:, -1]]
    mean = sum(scales) / 40
    for size in range(3):
        ratios = sorted(row[size] / (offset + slope * reach) for row, reach in zip(rows, reaches))
        assert found.samples[size] == pytest.approx([ratio * mean for ratio in ratios], rel=1e-5)
        assert found.limits[:, size] == pytest.approx([ratios[9] * scale for scale in scales], rel=1e-5)


def test_the_local_null_is_stricter_where_images_lie_denser() -> None:
    random = np.random.default_rng(0)
    dense, wide = 0.1 * random.standard_normal((100, 3)), 20 + 2 * random.standard_normal((100, 3))
    features = Features(values=np.concatenate([dense, wide]).astype(np.float32), normalised=False)
    limits = thresholds(features, nearest(features, 8), Chance(null="local", pool=60, groups=2000), 4, 0).limits
    assert limits.shape == (200, 3)
    assert (limits[:100].max(axis=0) < limits[100:].min(axis=0)).all()
    assert (limits[:100].mean(axis=0) * 4 < limits[100:].mean(axis=0)).all()


@pytest.mark.parametrize("null", ["random", "pairs", "local"])
def test_equal_images_have_limits_of_zero_and_one_image_has_none(null) -> None:
    equal = features_of("equal", 20, 3, 0)
    assert not thresholds(equal, nearest(equal, 4), Chance(null=null, groups=50), 5, 0).limits.any()
    one = features_of("random", 1, 3, 0)
    assert thresholds(one, nearest(one, 4), Chance(null=null, groups=50), 5, 0).cap == 1


@pytest.mark.parametrize("null", ["random", "pairs", "local"])
def test_a_seed_draws_the_same_limits_again_and_another_seed_others(null) -> None:
    features = features_of("random", 60, 5, 1)
    lists, config = nearest(features, 6), Chance(null=null, groups=100)
    first, again, other = (thresholds(features, lists, config, 5, seed) for seed in (1, 1, 2))
    assert np.array_equal(first.limits, again.limits)
    assert np.array_equal(first.samples, again.samples)
    assert not np.array_equal(first.samples, other.samples)


def test_the_local_null_needs_neighbours() -> None:
    message = r"^chance\.null = 'local' needs the neighbours of every image, got none; pass them or use 'random' or 'pairs'$"
    with pytest.raises(UsageError, match=message):
        thresholds(features_of("random", 9, 2, 0), None, Chance(null="local"), 4, 0)


def test_chance_is_the_share_of_random_groups_at_least_as_compact() -> None:
    features = features_of("random", 40, 3, 2)
    limits = thresholds(features, None, Chance(groups=150), 6, 0)
    groups = random_groups(40, 25, 6, 1, smallest=1)
    groups = Groups.of(list(groups), 40, [diameter(features, list(group)) for group in groups])
    for group, found in zip(range(25), chance_of(groups, limits)):
        size = len(groups[group])
        below = [sample for sample in limits.samples[size - 2] if sample <= groups.diameters[group]] if size > 1 else [0] * 150
        assert found == np.float32(len(below) / 150)


def test_local_chance_is_read_on_the_scale_of_the_seed() -> None:
    random = np.random.default_rng(0)
    values = random.standard_normal((200, 3)) * np.repeat([0.1, 5.0], 100)[:, None]
    features = Features(values=values.astype(np.float32), normalised=False)
    limits = thresholds(features, nearest(features, 8), Chance(null="local", pool=60, groups=1000, percentile=20), 4, 0)
    at_limit = Groups.of([[seed, (seed + 1) % 200] for seed in range(200)], 200, limits.limits[:, 0])
    assert chance_of(at_limit, limits) == pytest.approx(np.full(200, 0.2), abs=0.002)


def test_a_group_larger_than_the_thresholds_is_refused() -> None:
    limits = thresholds(features_of("random", 20, 3, 2), None, Chance(groups=20), 3, 0)
    with pytest.raises(DataError, match=r"^chance thresholds reach groups of 3, got a group of 4 images$"):
        chance_of(Groups.of([[0, 1, 2, 3]], 20), limits)
