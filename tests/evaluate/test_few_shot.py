"""The few-shot probe: what a fold draws, one C for all folds, mean and spread."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reliant.errors import DataError, UsageError
from reliant.evaluate.few_shot import draw, few_shot
from reliant.evaluate.linear import STRENGTHS, search
from reliant.evaluate.standardisation import Standardisation


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 10**6), fold=st.integers(0, 20), labels=st.integers(1, 6))
def test_a_fold_has_the_asked_labels_of_every_class(seed, fold, labels):
    values = np.random.default_rng(seed).permutation(np.repeat([0, 3, 8], [6, 11, 30]))
    rows = draw(values, labels=labels, seed=seed, fold=fold)
    assert np.array_equal(rows, np.unique(rows))
    for value in (0, 3, 8):
        assert (values[rows] == value).sum() == labels
    assert np.array_equal(rows, draw(values, labels=labels, seed=seed, fold=fold))


def test_folds_and_seeds_draw_differently():
    values = np.repeat([0, 1], 500)
    drawn = {tuple(draw(values, labels=10, seed=seed, fold=fold).tolist()) for seed, fold in [(0, 0), (0, 1), (1, 0), (1, 1)]}
    assert len(drawn) == 4


def test_every_row_is_drawn_equally_often():
    values = np.repeat([0, 1], 20)
    times = sum(np.bincount(draw(values, labels=5, seed=0, fold=fold), minlength=40) for fold in range(400))
    assert times.min() > 60  # of 400 folds a row is in 100 on average, ± 9
    assert times.max() < 140


def test_folds_are_those_of_scikit_learn_on_the_same_rows(blobs):
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    train, train_labels, test, test_labels = blobs
    scores = few_shot(*blobs, labels=20, folds=4, seed=3)
    accuracies = []
    for fold in range(4):
        rows = draw(train_labels, labels=20, seed=3, fold=fold)
        model = make_pipeline(StandardScaler(), LogisticRegression(C=scores["C"], max_iter=5000, tol=1e-8))
        accuracies.append(model.fit(train[rows].astype(float), train_labels[rows]).score(test.astype(float), test_labels))
        assert scores[f"accuracy_fold{fold}"] == pytest.approx(accuracies[-1], abs=0.01)
    found = [scores[f"accuracy_fold{fold}"] for fold in range(4)]
    mean = sum(found) / 4
    assert scores["accuracy"] == pytest.approx(mean)
    assert scores["accuracy_std"] == pytest.approx((sum((value - mean) ** 2 for value in found) / 3) ** 0.5)
    assert set(scores) == {"accuracy", "accuracy_std", "C", *(f"accuracy_fold{fold}" for fold in range(4))}


def test_the_regularisation_comes_from_the_first_fold_alone(blobs):
    train, train_labels, test, test_labels = blobs
    first = draw(train_labels, labels=15, seed=0, fold=0)
    expected = search(train[first], train_labels[first], Standardisation.of(train[first]), seed=0).strength
    assert expected in STRENGTHS
    wild = train.copy()
    outside = np.setdiff1d(np.arange(300), first)
    wild[outside] = np.random.default_rng(0).normal(size=(len(outside), 12))
    for features in (train, wild):
        assert few_shot(features, train_labels, test, test_labels, labels=15, folds=2)["C"] == expected


def test_images_without_label_take_no_part(blobs):
    train, train_labels, test, test_labels = blobs
    expected = few_shot(*blobs, labels=10, folds=2)
    poisoned = np.vstack([np.full((4, 12), np.nan, dtype=np.float32), train])
    assert few_shot(poisoned, np.append([-1] * 4, train_labels), test, test_labels, labels=10, folds=2) == expected


def test_a_small_budget_has_three_folds_and_one_fold_has_no_spread(blobs):
    small = few_shot(*blobs, labels=5, budget="small")
    assert [key for key in small if "fold" in key] == ["accuracy_fold0", "accuracy_fold1", "accuracy_fold2"]
    assert few_shot(*blobs, labels=5, folds=1)["accuracy_std"] == 0.0


def test_ten_folds_of_a_hundred_are_the_default():
    labels = np.repeat([0, 1], 120)
    features = labels[:, None] + np.random.default_rng(0).normal(size=(240, 3))
    scores = few_shot(features, labels, features, labels)
    assert sum("fold" in key for key in scores) == 10
    with pytest.raises(DataError, match="but a fold takes 100 of every class"):
        few_shot(features[30:], labels[30:], features, labels)


def test_a_class_with_too_few_labels_is_named(blobs):
    train, train_labels, test, test_labels = blobs
    keep = np.flatnonzero((train_labels != 2) | (np.cumsum(train_labels == 2) <= 7))
    message = "class 2 has 7 labelled training images, but a fold takes 20 of every class; ask for at most 7 labels a class"
    with pytest.raises(DataError, match=f"^{re.escape(message)}$"):
        few_shot(train[keep], train_labels[keep], test, test_labels, labels=20)
    with pytest.raises(DataError, match=r"^class 'frog' has 7 labelled training images"):
        few_shot(train[keep], train_labels[keep], test, test_labels, labels=20, names=["cat", "dog", "frog", "ship"])


def test_bad_arguments_are_named(blobs):
    with pytest.raises(UsageError, match=r"^few-shot needs at least 2 labels a class, got 1$"):
        few_shot(*blobs, labels=1)
    with pytest.raises(UsageError, match=r"^few-shot needs at least 1 fold, got 0$"):
        few_shot(*blobs, folds=0)
