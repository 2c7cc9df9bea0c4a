from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from relation_oracles import distance, features_of, random_groups

from reliant.config import Partition
from reliant.records import Features, Groups, Subsets
from reliant.relations import terms as term_stage
from reliant.relations.centres import centres
from reliant.relations.terms import terms


def mean_distance(features, groups, first, second, power=1) -> float:
    gaps = [float(distance(features, a, b)) ** power for a in groups[first] for b in groups[second]]
    return sum(gaps) / len(gaps)


def terms_by_loops(groups, subsets, features, config) -> dict[str, float]:
    means = Features(values=centres(groups, features)[0], normalised=False)
    plain, squared, nearest, total = [], [], [], 0.0
    for subset in range(subsets.count):
        part = subsets.groups_of(subset).tolist()
        pairs = list(permutations(part, 2))
        if not pairs:
            continue
        values = [mean_distance(features, groups, a, b) for a, b in pairs]
        plain.append(sum(values) / len(pairs))
        squared.append(sum(mean_distance(features, groups, a, b, 2) for a, b in pairs) / len(pairs))
        nearest += [min(float(distance(means, a, b)) for b in part if b != a) for a in part]
        total += sum(values)
    images = [{one for group in subsets.groups_of(k) for one in groups[group].tolist()} for k in range(subsets.count)]
    overlap, coverage = sum(map(len, images)), len(set().union(*images))
    return {
        "distance": sum(plain) / len(plain) if plain else 0,
        "distance_squared": sum(squared) / len(squared) if squared else 0,
        "nearest": sum(nearest) / len(nearest) if nearest else 0,
        "overlap": overlap,
        "coverage": coverage,
        "objective": -total - config.overlap * overlap - config.coverage * coverage,
    }


def test_two_groups_on_a_line_by_hand() -> None:
    features = Features(values=np.float32([[0], [2], [10], [12], [50]]), normalised=False)
    groups = Groups.of([[0, 1], [2, 3], [4]], 5)
    found = terms(groups, Subsets(of_group=np.int32([0, 0, -1]), count=1), features, Partition(overlap=2, coverage=3), 0)
    # S = (10 + 12 + 8 + 10) / 4; squared: (100 + 144 + 64 + 100) / 4 = 10² + 1 + 1.
    assert found["distance"] == pytest.approx(10)
    assert found["distance_squared"] == pytest.approx(102)
    assert found["nearest"] == 10
    assert (found["overlap"], found["coverage"]) == (4, 4)
    assert found["objective"] == pytest.approx(-2 * 10 - 2 * 4 - 3 * 4)
    assert "distance_standard_error" not in found


@settings(deadline=None, max_examples=30)
@given(st.sampled_from(["random", "integer", "offset", "equal"]), st.integers(2, 25), st.integers(1, 4), st.integers(0, 500))
def test_terms_are_those_of_loops(kind, images, count, seed) -> None:
    features, groups = features_of(kind, images, 3, seed), random_groups(images, 12, 4, seed, smallest=1)
    random = np.random.default_rng(seed)
    subsets = Subsets(of_group=random.integers(-1, count, size=len(groups)).astype(np.int32), count=count)
    config = Partition(overlap=0.5, coverage=2.0)
    found = terms(groups, subsets, features, config, seed)
    scale = max(1.0, float(np.abs(features.values - features.values.mean(axis=0)).max()))
    for name, value in terms_by_loops(groups, subsets, features, config).items():
        assert found[name] == pytest.approx(value, rel=2e-4, abs=2e-3 * scale), name


@pytest.mark.parametrize("tile", [7, 64])
def test_tiles_of_any_size_sum_the_same_distance(tile, monkeypatch) -> None:
    features, groups = features_of("random", 80, 4, 0), random_groups(80, 30, 6, 0)
    subsets = Subsets(of_group=np.arange(30, dtype=np.int32) % 3, count=3)
    whole = terms(groups, subsets, features, Partition(), 0)["distance"]
    monkeypatch.setattr(term_stage, "_TILE", tile)
    assert terms(groups, subsets, features, Partition(), 0)["distance"] == pytest.approx(whole, rel=1e-5)


def test_a_sample_lies_within_its_errors_and_is_drawn_again_alike(monkeypatch) -> None:
    features, groups = features_of("random", 200, 4, 0), random_groups(200, 80, 9, 0, smallest=1)
    subsets = Subsets(of_group=np.arange(80, dtype=np.int32) % 3, count=3)
    whole = terms(groups, subsets, features, Partition(), 5)
    monkeypatch.setattr(term_stage, "_GROUPS", 10)
    sampled = terms(groups, subsets, features, Partition(), 5)
    error = sampled["distance_standard_error"]
    assert 0 < error < 0.01
    assert abs(sampled["distance"] - whole["distance"]) < 4 * error
    assert sampled["distance_squared"] == whole["distance_squared"]
    assert terms(groups, subsets, features, Partition(), 5) == sampled
    monkeypatch.setattr(term_stage, "_SAMPLES", 100)
    assert terms(groups, subsets, features, Partition(), 5)["distance_standard_error"] > 10 * error


def test_nearest_may_be_taken_over_a_part_of_the_groups(monkeypatch) -> None:
    features, groups = features_of("random", 300, 3, 0), random_groups(300, 200, 3, 0)
    subsets = Subsets(of_group=np.zeros(200, np.int32), count=1)
    whole = terms(groups, subsets, features, Partition(), 0)["nearest"]
    monkeypatch.setattr(term_stage, "_NEAREST", 100)
    assert terms(groups, subsets, features, Partition(), 0)["nearest"] == pytest.approx(whole, rel=0.1)


def test_a_random_assignment_is_what_distant_groups_are_compared_with() -> None:
    places = np.repeat(np.float32([[0], [100]]), 20, axis=0) + np.arange(40, dtype=np.float32)[:, None] / 40
    features = Features(values=places, normalised=False)
    groups = Groups.of([[2 * one, 2 * one + 1] for one in range(20)], 40)
    one_of_each = Subsets(of_group=np.arange(20, dtype=np.int32) % 10, count=10)
    found = terms(groups, one_of_each, features, Partition(), 0)
    assert found["distance"] > 99 > 80 > found["distance_random"]


def test_no_pair_of_groups_has_no_distance() -> None:
    features = features_of("random", 6, 2, 0)
    nothing = terms(Groups.of([], 6), Subsets(of_group=np.empty(0, np.int32), count=0), features, Partition(), 0)
    assert set(nothing.values()) == {0.0}
    alone = terms(Groups.of([[0, 1]], 6), Subsets(of_group=np.int32([0]), count=1), features, Partition(), 0)
    assert (alone["distance"], alone["overlap"], alone["objective"]) == (0, 2, -4)
