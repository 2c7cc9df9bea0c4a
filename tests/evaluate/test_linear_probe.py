"""The linear probe: standardisation, the held-out tenth, the choice of C, and the score."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reliant.errors import DataError, MissingExtraError
from reliant.evaluate import linear as module
from reliant.evaluate import standardisation
from reliant.evaluate.linear import SMALL_STRENGTHS, STRENGTHS, fit, held_out, linear, search
from reliant.evaluate.standardisation import Standardisation


def test_standardisation_by_hand():
    features = np.array([[1, 5, 0.1], [3, 5, 0.1], [5, 5, 0.1]], dtype=np.float32)
    space = Standardisation.of(features)
    assert space.mean == pytest.approx([3, 5, 0.1])
    assert space.scale == pytest.approx([1 / np.sqrt(8 / 3), 0, 0])
    rows = np.concatenate(list(space.blocks(np.array([[3, 9, 4], [3 + np.sqrt(8 / 3), 5, 0]]))))
    assert rows == pytest.approx(np.array([[0, 0, 0], [1, 0, 0]]), abs=1e-6)
    assert rows.dtype == np.float32


def test_a_column_of_rounding_noise_counts_as_constant():
    noise = np.array([[1000.0], [np.nextafter(np.float32(1000), np.float32(2000))], [1000.0]], dtype=np.float32)
    assert Standardisation.of(noise).scale.tolist() == [0.0]
    assert Standardisation.of(noise - np.float32(1000)).scale[0] > 1000


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 10**6), offset=st.sampled_from([0.0, 100.0, 1e4]), block=st.integers(1, 200))
def test_standardised_columns_have_mean_0_and_deviation_1(seed, offset, block):
    features = np.random.default_rng(seed).normal(offset, 2.0, size=(40, 5)).astype(np.float32)
    rows = np.arange(5, 35)[::-1].copy()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(standardisation, "BLOCK", block)
        space = Standardisation.of(features, rows)
        whole = space.tensor(features, rows).numpy()
    assert whole.mean(0) == pytest.approx(np.zeros(5), abs=1e-5)
    assert whole.std(0) == pytest.approx(np.ones(5), abs=1e-5)
    assert np.array_equal(whole[0], next(space.blocks(features[34:35]))[0])


@settings(deadline=None, max_examples=40)
@given(counts=st.lists(st.integers(1, 35), min_size=2, max_size=8), seed=st.integers(0, 1000))
def test_the_held_out_tenth_is_spread_over_the_classes(counts, seed):
    targets = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(counts)), counts))
    if max(counts) == 1:
        with pytest.raises(DataError, match=r"^no class has two labelled training images, so none can be held out"):
            held_out(targets, seed)
        return
    rows = held_out(targets, seed)
    held = np.bincount(targets[rows], minlength=len(counts))
    assert np.array_equal(rows, np.unique(rows))
    assert 1 <= len(rows) <= max(1, len(targets) // 10)
    for value, count in enumerate(counts):
        assert held[value] <= count - 1
        assert held[value] <= count // 10 + 1
    if min(counts) >= 10:
        assert len(rows) == len(targets) // 10
    assert np.array_equal(rows, held_out(targets, seed))


def test_a_class_of_one_is_never_held_out():
    targets = np.array([0] * 9 + [1])  # the tenth image, whose turn it is, is all that its class has
    assert targets[held_out(targets, 0)].tolist() == [0]


def test_the_held_out_tenth_depends_on_the_seed():
    targets = np.repeat([0, 1], 100)
    assert len(held_out(targets, 0)) == 20
    assert not np.array_equal(held_out(targets, 0), held_out(targets, 1))


def test_agrees_with_scikit_learn_on_the_whole_protocol(blobs):
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    train, train_labels, test, test_labels = blobs
    scores = linear(*blobs)
    model = make_pipeline(StandardScaler(), LogisticRegression(C=scores["C"], max_iter=5000, tol=1e-8))
    expected = model.fit(train.astype(float), train_labels).score(test.astype(float), test_labels)
    assert scores["accuracy"] == pytest.approx(expected, abs=0.005)
    assert 0.6 < scores["accuracy"] < 1.0
    assert scores["C"] in STRENGTHS
    assert set(scores) == {"accuracy", "C", "accuracy_held_out"}


def test_strength_is_chosen_as_a_plain_search_would(blobs):
    from sklearn.linear_model import LogisticRegression

    train, labels = blobs[:2]
    space = Standardisation.of(train)
    rows, held = next(space.blocks(train)), held_out(labels, 0)
    kept = np.setdiff1d(np.arange(300), held)
    ranked = []
    for strength in STRENGTHS:
        model = LogisticRegression(C=strength, max_iter=5000, tol=1e-8).fit(rows[kept].astype(float), labels[kept])
        loss = -model.predict_log_proba(rows[held].astype(float))[np.arange(30), labels[held]].mean()
        ranked.append((model.score(rows[held], labels[held]), -loss, -strength))
    accuracy, _, strength = max(ranked)
    found = search(train, labels, space, seed=0)
    assert (found.accuracy, found.strength) == (accuracy, -strength)


def test_the_path_ends_where_accuracy_and_cross_entropy_are_both_worse(blobs, monkeypatch):
    scores = iter([(0.5, 1.0), (0.7, 0.9), (0.6, 0.8), (0.7, 0.7), (0.6, 0.8), (1.0, 0.0)])
    monkeypatch.setattr(module, "_held_out_score", lambda *_: next(scores))
    train, labels = blobs[:2]
    assert search(train, labels, Standardisation.of(train), seed=0).strength == STRENGTHS[3]
    assert next(scores) == (1.0, 0.0)


def test_of_equal_strengths_the_smallest_is_chosen(blobs, monkeypatch):
    monkeypatch.setattr(module, "_held_out_score", lambda *_: (0.5, 1.0))
    train, labels = blobs[:2]
    assert search(train, labels, Standardisation.of(train), seed=0).strength == STRENGTHS[0]


def test_all_training_images_are_fitted_at_the_chosen_strength(blobs):
    from sklearn.linear_model import LogisticRegression

    train, labels = blobs[:2]
    space = Standardisation.of(train)
    classifier = search(train, labels, space, seed=0, strengths=(2e-3,)).refit(tolerance=1e-8)
    rows = next(space.blocks(train)).astype(float)
    expected = LogisticRegression(C=2e-3, max_iter=5000, tol=1e-9).fit(rows, labels)
    assert classifier.weights[:-1].numpy() == pytest.approx(expected.coef_.T, abs=1e-4)
    assert classifier.weights[-1].numpy() == pytest.approx(expected.intercept_, abs=1e-3)


def test_the_test_split_decides_nothing_but_the_score(blobs):
    train, train_labels, test, test_labels = blobs
    scores = linear(*blobs)
    other = linear(train, train_labels, test[::-1] * 3, (test_labels + 1) % 4)
    assert other["accuracy"] != scores["accuracy"]
    assert (other["C"], other["accuracy_held_out"]) == (scores["C"], scores["accuracy_held_out"])


def test_constant_columns_change_nothing(blobs):
    train, train_labels, test, test_labels = blobs
    expected = linear(*blobs)
    constant = np.full((300, 2), 0.1, dtype=np.float32)
    # In the test split the column may hold anything: it told the classifier nothing.
    wild = np.random.default_rng(0).normal(0, 1e6, size=(200, 2)).astype(np.float32)
    assert linear(np.hstack([train, constant]), train_labels, np.hstack([test, wild]), test_labels) == expected


@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 10**6))
def test_scale_offset_and_label_values_do_not_matter(seed):
    random = np.random.default_rng(seed)
    labels = np.arange(90) % 3
    features = random.normal(size=(3, 6))[labels] * 3 + random.normal(size=(90, 6))
    expected = linear(features[:60], labels[:60], features[60:], labels[60:])
    moved = features * 2.0 ** random.integers(-8, 8, 6) + random.normal(size=6)
    found = linear(moved[:60], labels[:60] * 7 + 2, moved[60:], labels[60:] * 7 + 2)
    assert found["accuracy"] == pytest.approx(expected["accuracy"], abs=0.04)


def test_images_without_label_take_no_part(blobs):
    train, train_labels, test, test_labels = blobs
    expected = linear(*blobs)
    poisoned = np.insert(train, [3, 200], np.nan, axis=0)
    labels = np.insert(train_labels, [3, 200], -1)
    assert linear(poisoned, labels, np.vstack([test, train]), np.append(test_labels, np.full(300, -1))) == expected


def test_more_dimensions_than_images():
    random = np.random.default_rng(0)
    labels = np.arange(60) % 3
    features = random.normal(size=(3, 400))[labels] + 4 * random.normal(size=(60, 400))
    scores = linear(features[:30], labels[:30], features[30:], labels[30:])
    assert 0.5 < scores["accuracy"] <= 1.0


def test_all_images_equal_gives_the_most_frequent_class():
    same, labels = np.ones((20, 4), dtype=np.float32), np.array([1] * 13 + [0] * 7)
    scores = linear(same, labels, same, labels)
    assert scores["accuracy"] == pytest.approx(0.65)


def test_three_images_are_enough_and_two_are_not():
    features = np.array([[0.0], [1.0], [1.1]])
    assert linear(features, np.array([0, 1, 1]), features, np.array([0, 1, 1]))["accuracy"] >= 2 / 3
    with pytest.raises(DataError, match=r"^no class has two labelled training images, so none can be held out to choose the "):
        linear(features[:2], np.array([0, 1]), features[:2], np.array([0, 1]))


def test_a_small_budget_has_a_shorter_path(blobs):
    scores = linear(*blobs, budget="small")
    assert scores["C"] in SMALL_STRENGTHS
    assert scores["accuracy"] == pytest.approx(linear(*blobs)["accuracy"], abs=0.05)


def test_same_seed_same_scores_and_ties_go_to_the_lowest_class(blobs):
    assert linear(*blobs, seed=5) == linear(*blobs, seed=5)
    classifier = fit(blobs[0], blobs[1] + 10, strength=1.0)
    classifier.weights.zero_()
    assert classifier.predict(blobs[2]).tolist() == [10] * 200
    assert classifier.predict(blobs[2][:0]).shape == (0,)


def test_without_torch_it_says_what_to_install(blobs, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match=r"^logistic regression needs torch, which is not installed; pip install "):
        linear(*blobs)
