"""The minimiser against a solution by hand, scikit-learn and its own certificate."""

from __future__ import annotations

import logging
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from reliant.evaluate import logistic
from reliant.evaluate.logistic import covariance, minimise, restored, rotated


def problem(seed, count=120, dimension=8, classes=3, noise=1.0):
    random = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(classes), random.integers(0, classes, count - classes)])
    features = random.normal(size=(classes, dimension))[labels] + noise * random.normal(size=(count, dimension))
    features = features @ random.normal(size=(dimension, dimension))  # correlated columns
    features = (features - features.mean(0)) / features.std(0)
    return torch.from_numpy(features.astype(np.float32)), torch.from_numpy(labels)


def objective_by_loops(weights, features, labels, strength):
    weights, total = weights.double().numpy(), 0.0
    for row, label in zip(features.double().numpy(), labels.numpy(), strict=True):
        logits = row @ weights[:-1] + weights[-1]
        total += math.log(sum(math.exp(v - logits[label]) for v in logits))
    return total / len(labels) + (weights[:-1] ** 2).sum() / (2 * strength * len(labels))


def reference(features, labels, strength):
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=strength, tol=1e-9, max_iter=20000).fit(features.double().numpy(), labels.numpy())
    return torch.from_numpy(np.concatenate([model.coef_.T, model.intercept_[None]]))


@pytest.mark.parametrize("shaped", [True, False])
def test_two_points_by_hand(shaped):
    # x = ±1, weights (−w, w): the slope vanishes where w / (C N) = 1 / (1 + e^2w), so w = 1 at C = (1 + e²) / 2.
    features, labels = torch.tensor([[-1.0], [1.0]]), torch.tensor([0, 1])
    fit = minimise(
        features,
        labels,
        classes=2,
        strength=(1 + math.e**2) / 2,
        shape=covariance(features) if shaped else None,
        tolerance=1e-9,
    )
    assert fit.weights.numpy() == pytest.approx(np.array([[-1.0, 1.0], [0.0, 0.0]]), abs=1e-4)
    assert fit.objective == pytest.approx(math.log(1 + math.e**-2) + 1 / (1 + math.e**2))
    assert fit.converged


@pytest.mark.parametrize("strength", [1e-3, 1e-1, 10.0])
@pytest.mark.parametrize("shaped", [True, False])
def test_objective_and_weights_are_those_of_scikit_learn(strength, shaped):
    features, labels = problem(3)
    fit = minimise(features, labels, classes=3, strength=strength, shape=covariance(features) if shaped else None)
    best = reference(features, labels, strength)
    expected = objective_by_loops(best, features, labels, strength)
    found = objective_by_loops(fit.weights, features, labels, strength)
    assert fit.objective == pytest.approx(found, rel=1e-5)
    assert found <= expected * 1.0002
    assert found - expected <= fit.gap + 1e-6
    agreement = (features @ fit.weights[:-1] + fit.weights[-1]).argmax(1) == (features @ best[:-1].float() + best[-1]).argmax(1)
    assert agreement.float().mean() >= 0.99


@settings(deadline=None, max_examples=30)
@given(
    seed=st.integers(0, 10**6),
    count=st.integers(4, 60),
    dimension=st.integers(1, 12),
    classes=st.integers(2, 4),
    strength=st.sampled_from([1e-5, 1e-2, 1.0, 10.0]),
)
def test_no_step_away_from_the_minimum_gains_more_than_the_gap(seed, count, dimension, classes, strength):
    features, labels = problem(seed, count, dimension, classes)
    fit = minimise(features, labels, classes=classes, strength=strength, shape=covariance(features))
    assert fit.converged
    assert fit.gap <= logistic.TOLERANCE * fit.objective
    at = objective_by_loops(fit.weights, features, labels, strength)
    random = torch.Generator().manual_seed(seed)
    for size in (1e-3, 1e-2, 1e-1):
        away = fit.weights + size * torch.randn(fit.weights.shape, generator=random)
        assert objective_by_loops(away, features, labels, strength) >= at - fit.gap - 1e-6


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 10**6))
def test_renamed_classes_rename_the_weights(seed):
    features, labels = problem(seed, classes=4)
    order = torch.from_numpy(np.random.default_rng(seed).permutation(4))
    fit = minimise(features, labels, classes=4, strength=0.1, tolerance=1e-8)
    renamed = minimise(features, order[labels], classes=4, strength=0.1, tolerance=1e-8)
    assert torch.allclose(renamed.weights[:, order], fit.weights, atol=1e-3)


def test_a_warm_start_ends_at_the_same_minimum_sooner():
    features, labels = problem(5, count=300)
    shape = covariance(features)
    cold = minimise(features, labels, classes=3, strength=0.1, shape=shape)
    near = minimise(features, labels, classes=3, strength=0.08, shape=shape).weights
    before = near.clone()
    warm = minimise(features, labels, classes=3, strength=0.1, shape=shape, start=near)
    assert torch.equal(near, before)
    assert warm.iterations < cold.iterations
    assert warm.objective == pytest.approx(cold.objective, rel=2e-4)


def test_the_metric_spares_iterations_on_correlated_features():
    features, labels = problem(1, count=400, dimension=40, noise=4.0)
    plain = minimise(features, labels, classes=3, strength=10.0)
    shaped = minimise(features, labels, classes=3, strength=10.0, shape=covariance(features))
    assert shaped.objective == pytest.approx(plain.objective, rel=2e-4)
    assert shaped.iterations < plain.iterations / 3


def test_the_metric_follows_classes_that_part():
    features, labels = problem(1, count=400, dimension=40, noise=0.5)
    shaped = minimise(features, labels, classes=3, strength=10.0, shape=covariance(features))
    assert shaped.objective < 0.02
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logistic, "DRIFT", math.inf)
        rigid = minimise(features, labels, classes=3, strength=10.0, shape=covariance(features))
    assert shaped.iterations < rigid.iterations / 2


def test_features_without_information_leave_the_class_frequencies():
    features, labels = torch.zeros(10, 5), torch.tensor([0] * 7 + [1] * 2 + [2])
    fit = minimise(features, labels, classes=3, strength=1.0, shape=covariance(features), tolerance=1e-8)
    assert torch.count_nonzero(fit.weights[:-1]) == 0
    assert fit.weights[-1].softmax(0).numpy() == pytest.approx([0.7, 0.2, 0.1], abs=1e-4)


def test_few_rows_of_many_dimensions_are_rotated_without_loss():
    features, labels = problem(7, count=20, dimension=64)
    small, basis = rotated(features)
    assert small.shape == (20, 20)
    assert torch.allclose(small @ small.T, features @ features.T, atol=1e-3)
    wide = minimise(features, labels, classes=3, strength=0.1, shape=covariance(features), tolerance=1e-7)
    narrow = minimise(small, labels, classes=3, strength=0.1, shape=covariance(small), tolerance=1e-7)
    assert narrow.objective == pytest.approx(wide.objective, rel=1e-5)
    assert torch.allclose(restored(narrow.weights, basis), wide.weights, atol=1e-3)


def test_enough_rows_are_not_rotated():
    features, _ = problem(7, count=20, dimension=39)
    same, basis = rotated(features)
    assert same is features
    assert basis is None
    assert restored(features, None) is features


def test_covariance_samples_rows_evenly_and_stops_at_its_largest_dimension(monkeypatch):
    features = torch.arange(40.0)[:, None]
    assert covariance(features).item() == pytest.approx(sum(i * i for i in range(0, 40, 10)) / 4)
    monkeypatch.setattr(logistic, "LARGEST_COVARIANCE", 0)
    assert covariance(features) is None


def test_softmax_blocks_do_not_matter(monkeypatch):
    features, labels = problem(2)
    whole = minimise(features, labels, classes=3, strength=1.0, tolerance=1e-7)
    monkeypatch.setattr(logistic, "BLOCK", 50)
    parts = minimise(features, labels, classes=3, strength=1.0, tolerance=1e-7)
    assert parts.objective == pytest.approx(whole.objective, rel=1e-6)
    assert torch.allclose(parts.weights, whole.weights, atol=1e-3)


def test_the_same_bits_every_time():
    features, labels = problem(4)
    first, second = (minimise(features, labels, classes=3, strength=1.0, shape=covariance(features)) for _ in range(2))
    assert torch.equal(first.weights, second.weights)


def test_stopping_short_is_said(caplog):
    features, labels = problem(4)
    with caplog.at_level(logging.WARNING):
        fit = minimise(features, labels, classes=3, strength=10.0, iterations=1)
    assert not fit.converged
    assert fit.iterations == 1
    assert "logistic regression at C = 10 stopped after 1 iterations, at most " in caplog.text
