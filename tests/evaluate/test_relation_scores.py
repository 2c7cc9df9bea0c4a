"""Correctness and coverage of groups, counted by hand and by loops over pairs."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reliant.errors import DataError
from reliant.evaluate import relations as module
from reliant.evaluate.relations import relations, score_relations
from reliant.records import Groups, Subsets

LABELS = np.array([0, 0, 1, 1, 0, -1, 2, 2])


def subsets_of(*of_group, count):
    return Subsets(of_group=np.array(of_group, dtype=np.int32), count=count)


def test_two_groups_by_hand():
    # Group 0: labels 0 0 1, pairs 00 01 01; seed pairs 00 01. Group 1: labels 1 1 0 −1, pairs 11 10 10, seed pairs 11 10.
    groups = Groups.of([[0, 1, 2], [2, 3, 4, 5]], 8)
    scores = score_relations(groups, LABELS)
    assert scores.named == pytest.approx(
        {"correctness": 2 / 6, "correctness_seed": 2 / 4, "correctness_members": 4 / 6, "coverage": 6 / 8, "groups": 2}
    )
    assert scores.of_group == pytest.approx([1 / 3, 1 / 3])
    assert scores.by_size.sizes.tolist() == [3, 4]
    assert scores.by_size.coverage.tolist() == [3 / 8, 4 / 8]
    assert scores.by_size.groups.tolist() == [1, 1]
    assert scores.by_subset is None


def test_subsets_by_hand():
    groups = Groups.of([[0, 1], [2, 3], [4, 5], [6, 7]], 8)
    scores = score_relations(groups, LABELS, subsets_of(0, 0, 1, -1, count=2))
    # Subset 0: labels 0 0 against 1 1, four pairs, all differ. Subset 1 has a single group: no pair across groups.
    assert scores.by_subset.coverage.tolist() == [4 / 8, 2 / 8]
    assert scores.by_subset.dissimilarity[0] == 1.0
    assert math.isnan(scores.by_subset.dissimilarity[1])
    assert scores.named["dissimilarity"] == 1.0
    assert scores.named["coverage_subsets"] == 6 / 8
    assert scores.named["coverage_subsets_mean"] == 3 / 8
    assert scores.named["coverage"] == 1.0


def test_named_measures_hold_sizes_and_subsets():
    groups = Groups.of([[0, 1], [2, 3, 4]], 8)
    measures = relations(groups, LABELS, subsets_of(0, 0, count=1))
    assert measures["correctness_size2"] == 1.0
    assert measures["correctness_size3"] == pytest.approx(1 / 3)
    assert measures["correctness_members_size3"] == pytest.approx(2 / 3)
    assert measures["coverage_size3"] == 3 / 8
    assert measures["groups_size2"] == 1.0
    assert measures["coverage_subset0"] == 5 / 8
    assert measures["dissimilarity_subset0"] == pytest.approx(4 / 6)
    assert all(type(value) is float for value in measures.values())


@st.composite
def mined(draw):
    images = draw(st.integers(2, 14))
    labels = np.array(draw(st.lists(st.integers(-1, 3), min_size=images, max_size=images)))
    groups = draw(st.lists(st.lists(st.integers(0, images - 1), min_size=1, max_size=6, unique=True), min_size=0, max_size=8))
    count = draw(st.integers(1, 3))
    of_group = draw(st.lists(st.integers(-1, count - 1), min_size=len(groups), max_size=len(groups)))
    return Groups.of(groups, images), groups, labels, subsets_of(*of_group, count=count)


def share(pairs):
    return sum(pairs) / len(pairs) if pairs else math.nan


@settings(deadline=None, max_examples=50)
@given(mined())
def test_correctness_equals_loops_over_pairs(case):
    groups, lists, labels, _ = case

    def pairs_of(lists):
        return [labels[a] == labels[b] for g in lists for a, b in combinations(g, 2) if labels[a] >= 0 and labels[b] >= 0]

    scores = score_relations(groups, labels)
    seeds = [labels[g[0]] == labels[x] for g in lists for x in g[1:] if labels[g[0]] >= 0 and labels[x] >= 0]
    known = [[labels[x] for x in g if labels[x] >= 0] for g in lists]
    majority = sum(max((g.count(v) for v in g), default=0) for g in known)
    expected = {
        "correctness": share(pairs_of(lists)),
        "correctness_seed": share(seeds),
        "correctness_members": majority / sum(map(len, known)) if any(known) else math.nan,
        "coverage": len({x for g in lists for x in g}) / len(labels),
        "groups": len(lists),
    }
    assert scores.named == pytest.approx(expected, nan_ok=True)
    assert scores.of_group == pytest.approx([share(pairs_of([g])) for g in lists], nan_ok=True)
    for row, size in enumerate(scores.by_size.sizes):
        same = [g for g in lists if len(g) == size]
        assert scores.by_size.correctness[row] == pytest.approx(share(pairs_of(same)), nan_ok=True)
        assert scores.by_size.coverage[row] == len({x for g in same for x in g}) / len(labels)
        assert scores.by_size.groups[row] == len(same)
    assert scores.by_size.sizes.tolist() == sorted({len(g) for g in lists})


@settings(deadline=None, max_examples=50)
@given(mined())
def test_dissimilarity_equals_loops_over_pairs_across_groups(case):
    groups, lists, labels, subsets = case
    scores = score_relations(groups, labels, subsets)
    across, reached = [], set()
    for subset in range(subsets.count):
        inside = [lists[g] for g in subsets.groups_of(subset)]
        own = [
            labels[a] != labels[b]
            for first, second in combinations(inside, 2)
            for a in first
            for b in second
            if a != b and labels[a] >= 0 and labels[b] >= 0
        ]
        across += own
        reached |= {x for g in inside for x in g}
        assert scores.by_subset.dissimilarity[subset] == pytest.approx(share(own), nan_ok=True)
        assert scores.by_subset.coverage[subset] == len({x for g in inside for x in g}) / len(labels)
    assert scores.named["dissimilarity"] == pytest.approx(share(across), nan_ok=True)
    assert scores.named["coverage_subsets"] == len(reached) / len(labels)


@settings(deadline=None, max_examples=25)
@given(mined(), st.integers(0, 1000))
def test_names_of_labels_and_order_of_groups_do_not_matter(case, seed):
    groups, lists, labels, subsets = case
    random = np.random.default_rng(seed)
    renamed = np.where(labels < 0, -1, random.permutation(50)[labels])
    order = random.permutation(len(lists))
    shuffled = Subsets(of_group=subsets.of_group[order], count=subsets.count)
    expected = relations(groups, labels, subsets)
    assert relations(groups.select(order), renamed, shuffled) == pytest.approx(expected, nan_ok=True)


def test_poisoned_labels_of_unlabelled_images_change_only_what_holds_them():
    groups = Groups.of([[0, 1, 2], [5, 6, 7]], 8)
    with_label = LABELS.copy()
    with_label[5] = 2
    assert score_relations(groups, LABELS).of_group.tolist() == pytest.approx([1 / 3, 1.0])
    assert score_relations(groups, LABELS).named["correctness"] == 2 / 4
    assert score_relations(groups, with_label).named["correctness"] == 4 / 6


def test_without_groups_nothing_is_correct_or_wrong():
    groups = Groups.of([], 8)
    scores = score_relations(groups, LABELS, subsets_of(count=2))
    assert scores.named["coverage"] == 0.0
    assert scores.named["groups"] == 0.0
    assert math.isnan(scores.named["correctness"])
    assert math.isnan(scores.named["dissimilarity"])
    assert len(scores.of_group) == 0
    assert len(scores.by_size.sizes) == 0


def test_groups_of_one_have_no_pair():
    scores = score_relations(Groups.of([[0], [3]], 8), LABELS)
    assert math.isnan(scores.named["correctness"])
    assert math.isnan(scores.named["correctness_seed"])
    assert scores.named["correctness_members"] == 1.0
    assert np.isnan(scores.of_group).all()


def test_without_any_label_only_coverage_is_known():
    scores = score_relations(Groups.of([[0, 1]], 2), np.array([-1, -1]), subsets_of(0, count=1))
    assert math.isnan(scores.named["correctness"])
    assert scores.named["coverage"] == scores.named["coverage_subsets"] == 1.0


def test_counts_beyond_float_precision_stay_exact():
    assert module._sums(np.array([0, 0, 1]), np.array([2**53, 1, 5]), 2).tolist() == [2**53 + 1, 5]


def test_wrong_lengths_are_named():
    groups = Groups.of([[0, 1]], 8)
    message = r"^the groups are of 8 images but there are 3 labels; give one label an image, −1 for none$"
    with pytest.raises(DataError, match=message):
        score_relations(groups, np.zeros(3, dtype=np.int32))
    message = r"^the subsets are not of these 1 groups; give the subsets that were mined from them$"
    with pytest.raises(DataError, match=message):
        score_relations(groups, LABELS, subsets_of(0, 0, count=1))
