"""``few-shot``: logistic regression from a few labels a class, over seeded folds; STL-10's protocol (Tables 3–5, Sec. 4.2).

train (N, D), labels (N,), test (M, D), labels (M,) → mean, spread and every fold's accuracy on the whole test split.

A fold is ``labels`` images of every class, drawn from the training split. One regularisation serves all folds: it is chosen
once, on a held-out tenth of the first fold's training images, as ``linear`` does it (ours, not the paper's).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError, UsageError, must
from ..randomness import generator
from .labels import labelled
from .linear import fit, search
from .standardisation import Standardisation

LABELS = 100  # a class; 25 on Tiny ImageNet
FOLDS = 10
SMALL_FOLDS = 3


def few_shot(
    train: NDArray[Any],
    train_labels: NDArray[Any],
    test: NDArray[Any],
    test_labels: NDArray[Any],
    *,
    seed: int = 0,
    budget: str = "full",
    labels: int = LABELS,
    folds: int = FOLDS,
    device: str = "cpu",
    names: Sequence[str] | None = None,
) -> dict[str, float]:
    """``accuracy`` (mean over folds), ``accuracy_std`` (n − 1), ``accuracy_fold0`` …, and the one ``C``.

    ``names`` are those of the classes, for messages.
    """
    must(labels >= 2, UsageError, f"few-shot needs at least 2 labels a class, got {labels}")
    must(folds >= 1, UsageError, f"few-shot needs at least 1 fold, got {folds}")
    train, train_labels, test, test_labels = labelled(train, train_labels, test, test_labels)
    count = min(folds, SMALL_FOLDS) if budget == "small" else folds
    drawn = [draw(train_labels, labels=labels, seed=seed, fold=fold, names=names) for fold in range(count)]
    first = train[drawn[0]]
    strength = search(first, train_labels[drawn[0]], Standardisation.of(first), seed=seed, device=device).strength
    accuracies = []
    for rows in drawn:
        classifier = fit(train[rows], train_labels[rows], strength=strength, device=device)
        accuracies.append(classifier.accuracy(test, test_labels))
    return {
        "accuracy": float(np.mean(accuracies)),
        "accuracy_std": float(np.std(accuracies, ddof=1)) if count > 1 else 0.0,
        "C": strength,
        **{f"accuracy_fold{fold}": accuracy for fold, accuracy in enumerate(accuracies)},
    }


def draw(
    train_labels: NDArray[np.int64], *, labels: int, seed: int, fold: int, names: Sequence[str] | None = None
) -> NDArray[np.int64]:
    """The rows of one fold, ascending: ``labels`` of every class, without replacement."""
    classes, counts = np.unique(train_labels, return_counts=True)
    for value, count in zip(classes, counts, strict=True):
        name = value if names is None else repr(names[value])
        must(
            int(count) >= labels,
            DataError,
            f"class {name} has {count} labelled training image{'' if count == 1 else 's'}, but a fold takes {labels} of every "
            f"class; ask for at most {counts.min()} labels a class",
        )
    random = generator(seed, "few-shot", fold)
    rows = [random.permutation(np.flatnonzero(train_labels == value))[:labels] for value in classes]
    return np.sort(np.concatenate(rows))
