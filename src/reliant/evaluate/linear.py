"""``linear``: logistic regression on frozen features, regularised as training labels ask for (ours, not the paper's).

train (N, D), labels (N,), test (M, D), labels (M,) → accuracy.

A fixed, seeded, stratified tenth of the training images is held out. C is chosen there along a path from strong to weak
regularisation, each fit started from the one before; then all training images are fitted, and the test split is scored once.
Means and deviations are those of all training images, the held-out tenth among them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError, MissingExtraError, must
from ..randomness import generator
from . import logistic
from .labels import labelled
from .standardisation import Standardisation

if TYPE_CHECKING:
    from torch import Tensor

STRENGTHS = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)  # C, scikit-learn's: the larger, the weaker the regularisation
SMALL_STRENGTHS = (1e-2, 1e-1)
SMALL_TOLERANCE = 2e-2
SEARCH_TOLERANCE = 1e-3  # enough to rank the strengths; the final fit is held to logistic.TOLERANCE
HELD_OUT = 10  # one training image of so many


def linear(
    train: NDArray[Any],
    train_labels: NDArray[Any],
    test: NDArray[Any],
    test_labels: NDArray[Any],
    *,
    seed: int = 0,
    budget: str = "full",
    device: str = "cpu",
) -> dict[str, float]:
    """``accuracy`` on the test split, the chosen ``C``, and the accuracy on the held-out tenth that chose it."""
    train, train_labels, test, test_labels = labelled(train, train_labels, test, test_labels)
    small = budget == "small"
    space = Standardisation.of(train)
    how: dict[str, Any] = {"strengths": SMALL_STRENGTHS, "tolerance": SMALL_TOLERANCE} if small else {}
    choice = search(train, train_labels, space, seed=seed, device=device, **how)
    classifier = choice.refit(tolerance=SMALL_TOLERANCE if small else logistic.TOLERANCE)
    return {
        "accuracy": classifier.accuracy(test, test_labels),
        "C": choice.strength,
        "accuracy_held_out": choice.accuracy,
    }


@dataclass(frozen=True, kw_only=True)
class Classifier:
    """weights (D + 1, classes) on standardised features; ``classes`` are the labels of the columns, ascending."""

    space: Standardisation
    weights: Tensor
    classes: NDArray[np.int64]

    def predict(self, features: NDArray[Any]) -> NDArray[np.int64]:
        """(M, D) → (M,) labels; ties go to the lowest."""
        import torch

        columns = [np.empty(0, dtype=np.int64)]
        for block in self.space.blocks(features):
            rows = torch.from_numpy(block).to(self.weights.device)
            columns.append(torch.addmm(self.weights[-1], rows, self.weights[:-1]).cpu().numpy().argmax(axis=1))
        return self.classes[np.concatenate(columns)]

    def accuracy(self, features: NDArray[Any], labels: NDArray[np.int64]) -> float:
        return float((self.predict(features) == labels).mean())


@dataclass(frozen=True, kw_only=True)
class Search:
    """The strength that the held-out tenth prefers, with all that a fit to all training images needs."""

    strength: float
    accuracy: float
    features: Tensor
    basis: Tensor | None
    labels: Tensor
    start: Tensor | None
    shape: Tensor | None
    space: Standardisation
    classes: NDArray[np.int64]

    def refit(self, tolerance: float = logistic.TOLERANCE) -> Classifier:
        weights = logistic.minimise(
            self.features,
            self.labels,
            classes=len(self.classes),
            strength=self.strength,
            start=self.start,
            shape=self.shape,
            tolerance=tolerance,
        ).weights
        return Classifier(space=self.space, weights=logistic.restored(weights, self.basis), classes=self.classes)


def fit(
    features: NDArray[Any],
    labels: NDArray[np.int64],
    *,
    strength: float,
    tolerance: float = logistic.TOLERANCE,
    device: str = "cpu",
) -> Classifier:
    """A classifier at a given C, standardised by these very features."""
    torch = _torch()
    space = Standardisation.of(features)
    classes, targets = np.unique(labels, return_inverse=True)
    rows, basis = logistic.rotated(space.tensor(features, device=device))
    weights = logistic.minimise(
        rows,
        torch.from_numpy(targets).to(device),
        classes=len(classes),
        strength=strength,
        shape=logistic.covariance(rows),
        tolerance=tolerance,
    ).weights
    return Classifier(space=space, weights=logistic.restored(weights, basis), classes=classes)


def search(
    features: NDArray[Any],
    labels: NDArray[np.int64],
    space: Standardisation,
    *,
    seed: int,
    strengths: tuple[float, ...] = STRENGTHS,
    tolerance: float = SEARCH_TOLERANCE,
    device: str = "cpu",
) -> Search:
    """C by held-out accuracy, then by cross-entropy, then the smaller; the path ends where both have become worse."""
    torch = _torch()
    classes, targets = np.unique(labels, return_inverse=True)
    held = held_out(targets, seed)
    kept = np.setdiff1d(np.arange(len(targets)), held)
    order = np.concatenate([kept, held])  # the held-out rows last: both parts are views of one tensor
    rows, basis = logistic.rotated(space.tensor(features, order, device))
    truth = torch.from_numpy(targets[order]).to(device)
    shape = logistic.covariance(rows[: len(kept)])
    best, strength = (-1.0, math.inf), strengths[0]
    weights: Tensor | None = None
    start: Tensor | None = None
    for candidate in strengths:
        weights = logistic.minimise(
            rows[: len(kept)],
            truth[: len(kept)],
            classes=len(classes),
            strength=candidate,
            start=weights,
            shape=shape,
            tolerance=tolerance,
        ).weights
        accuracy, loss = _held_out_score(weights, rows[len(kept) :], truth[len(kept) :])
        if (accuracy, -loss) > (best[0], -best[1]):
            best, strength, start = (accuracy, loss), candidate, weights
        elif accuracy < best[0] and loss > best[1]:
            break
    return Search(
        strength=strength,
        accuracy=best[0],
        features=rows,
        basis=basis,
        labels=truth,
        start=start,
        shape=shape,
        space=space,
        classes=classes,
    )


def held_out(targets: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """The rows of a tenth of the images, spread evenly over the classes; every class keeps an image to train on."""
    counts = np.bincount(targets)
    ends = np.cumsum(counts)
    shares = np.minimum(ends // HELD_OUT - (ends - counts) // HELD_OUT, np.maximum(counts - 1, 0))
    if not shares.any():  # fewer than ten images, or classes of one
        shares[np.argmax(counts)] = 1
    must(
        int(counts.max()) > 1,
        DataError,
        "no class has two labelled training images, so none can be held out to choose the regularisation; give more labels",
    )
    random = generator(seed, "linear", "held-out")
    rows = [random.permutation(np.flatnonzero(targets == value))[:share] for value, share in enumerate(shares)]
    return np.sort(np.concatenate(rows))


def _held_out_score(weights: Tensor, features: Tensor, labels: Tensor) -> tuple[float, float]:
    import torch

    logits = torch.addmm(weights[-1], features, weights[:-1])
    right = logits.cpu().numpy().argmax(axis=1) == labels.cpu().numpy()
    return float(right.mean()), float(torch.nn.functional.cross_entropy(logits, labels))


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        raise MissingExtraError(
            "logistic regression needs torch, which is not installed; pip install 'reliant[train]', or use --protocol knn"
        ) from None
    return torch
