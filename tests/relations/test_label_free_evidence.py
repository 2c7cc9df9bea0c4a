from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from relation_oracles import features_of, jaccard_by_sets, random_groups

from reliant.config import Chance
from reliant.errors import DataError
from reliant.records import ChanceThresholds, Groups, Neighbours
from reliant.relations import reliability
from reliant.relations.chance import chance_of, thresholds
from reliant.relations.neighbours import nearest
from reliant.relations.reliability import evidence, pair_evidence


def lists_of(rows: list[list[int]]) -> Neighbours:
    ids = np.int32(rows)
    return Neighbours(ids=ids, distances=np.zeros(ids.shape, np.float32))


def linked_by_sets(lists: Neighbours, first: int, second: int) -> bool:
    return second in lists.ids[first].tolist() or first in lists.ids[second].tolist()


def test_the_evidence_of_three_images_by_hand() -> None:
    lists = lists_of([[1, 2], [0, 2], [3, 0], [2, 1]])
    samples = np.float32([[1, 2, 3, 4], [5, 6, 7, 8]])
    limits = ChanceThresholds(limits=np.float32([[1, 5]]), samples=samples, percentile=3.0, null="random")
    view = lists_of([[1, 3], [3, 2], [3, 1], [0, 1]])
    found = evidence(Groups.of([[0, 1, 2], [3]], 4, [6, 0]), lists, limits, views=[view])
    # {1,2}·{0,2} share 1 of 3; {1,2}·{3,0} none; {0,2}·{3,0} 1 of 3. In the view 0–1 and 1–2 are neighbours, 0–2 not.
    assert found.chance.tolist() == [0.5, 1]
    assert found.shared.tolist() == pytest.approx([2 / 9, np.nan], nan_ok=True)
    assert found.survival.tolist() == pytest.approx([2 / 3, np.nan], nan_ok=True)
    assert np.isnan(found.agreement).all()
    assert found.reliability.tolist() == pytest.approx([(0.5 + 2 / 9 + 2 / 3) / 3, 0])


@settings(deadline=None, max_examples=30)
@given(st.integers(4, 40), st.integers(1, 9), st.integers(0, 100), st.integers(0, 2), st.integers(0, 2))
def test_evidence_is_that_of_loops(images, k, seed, views, others) -> None:
    features = features_of("random", images, 4, seed)
    lists = nearest(features, k)
    around = [nearest(features_of("random", images, 4, seed + one + 1), k) for one in range(views + others)]
    groups = random_groups(images, 10, 5, seed, smallest=1)
    limits = thresholds(features, None, Chance(groups=50), 5, 0)
    found = evidence(groups, lists, limits, around[:views], around[views:])
    assert np.array_equal(found.chance, chance_of(groups, limits))
    for place, group in enumerate(groups):
        pairs = list(combinations(group.tolist(), 2))
        shared = _mean([jaccard_by_sets(lists, a, b) for a, b in pairs])
        survival = _mean([_mean([linked_by_sets(one, a, b) for a, b in pairs]) for one in around[:views]])
        agreement = _mean([_mean([linked_by_sets(one, a, b) for a, b in pairs]) for one in around[views:]])
        parts = [1 - float(found.chance[place]), shared, survival, agreement]
        measured = [part for part in parts if part == part]
        assert found.shared[place] == pytest.approx(shared, rel=1e-5, nan_ok=True)
        assert found.survival[place] == pytest.approx(survival, rel=1e-5, nan_ok=True)
        assert found.agreement[place] == pytest.approx(agreement, rel=1e-5, nan_ok=True)
        assert found.reliability[place] == pytest.approx(sum(measured) / len(measured), abs=1e-6)
        assert 0 <= found.reliability[place] <= 1


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else float("nan")


def test_more_of_any_evidence_never_makes_a_group_less_reliable() -> None:
    lists, groups = lists_of([[1, 2], [0, 2], [0, 1], [0, 1]]), Groups.of([[0, 1, 2]], 4, [6])
    limits = ChanceThresholds(limits=np.float32([[1, 5]]), samples=np.float32([[1, 2], [5, 7]]), percentile=3.0, null="random")
    weak, strong = lists_of([[3, 1], [3, 0], [3, 0], [0, 1]]), lists
    assert evidence(groups, lists, limits, [weak]).reliability[0] < evidence(groups, lists, limits, [strong]).reliability[0]
    looser = Groups.of([[0, 1, 2]], 4, [7])
    assert evidence(looser, lists, limits).reliability[0] < evidence(groups, lists, limits).reliability[0]


def test_blocks_change_no_evidence(monkeypatch) -> None:
    features = features_of("random", 60, 4, 0)
    lists, groups = nearest(features, 6), random_groups(60, 30, 6, 1)
    limits = thresholds(features, None, Chance(groups=50), 6, 0)
    whole = evidence(groups, lists, limits, [lists])
    monkeypatch.setattr(reliability, "BLOCK", 1)
    small = evidence(groups, lists, limits, [lists])
    assert np.array_equal(whole.shared, small.shared)
    assert np.array_equal(whole.survival, small.survival)


def test_no_groups_have_no_evidence_and_other_images_are_refused() -> None:
    features = features_of("random", 10, 3, 0)
    limits = thresholds(features, None, Chance(groups=20), 3, 0)
    assert len(evidence(Groups.of([], 10), nearest(features, 3), limits)) == 0
    message = r"^evidence needs neighbours of the same 10 images, got lists of 4$"
    with pytest.raises(DataError, match=message):
        evidence(Groups.of([], 10), nearest(features, 3), limits, [lists_of([[1], [0], [0], [0]])])


def test_pairs_are_ranked_both_ways() -> None:
    lists = lists_of([[1, 2], [2, 3], [0, 1], [2, 1]])
    table = pair_evidence(np.int32([[0, 1], [0, 2], [1, 2], [0, 3]]), lists, views=[lists, lists_of([[3, 1]] * 4)])
    assert table["rank"].tolist() == [1, 2, 1, 3]
    assert table["rank_back"].tolist() == [3, 1, 2, 3]
    assert table["mutual"].tolist() == [False, True, True, False]
    assert table["shared"].tolist() == pytest.approx([1 / 3, 1 / 3, 0, 1 / 1 * 2 / 2])
    assert table["survival"].tolist() == [1, 0.5, 1, 0.5]
    assert np.isnan(table["agreement"]).all()
