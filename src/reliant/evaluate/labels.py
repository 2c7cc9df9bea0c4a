"""What the labels of a training and a test split must be before anything is scored against them.

Labels are −1 where an image has none; such images take no part in any score.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError, must
from ..records import Labels

BLOCK = 65536  # rows of features that are looked at together


def check_labels(
    train: Labels, test: Labels, *, train_images: int | None = None, test_images: int | None = None
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The values of both splits in the numbering of the training split, or one DataError that says why they cannot be scored.

    Classes are matched by name: two sources may number the same names differently, a class that one lacks shifts the rest.
    """
    for split, labels, images in (("training", train, train_images), ("test", test, test_images)):
        _check_length(split, len(labels), len(labels) if images is None else images)
        _check_numbers(split, labels)
    _check_any("training", train.values)
    _check_any("test", test.values)
    number = {name: value for value, name in enumerate(train.names)}
    # −2: a name that the training split does not have, found below to be in use or not
    table = np.asarray([number.get(name, -2) for name in test.names] + [-1], dtype=np.int32)
    renumbered = table[test.values]
    for value in np.unique(test.values[renumbered == -2]):
        raise _unseen(repr(test.names[value]), int((test.values == value).sum()))
    _check_classes(train.values, renumbered, train.names)
    return train.values, renumbered


def labelled(
    train: NDArray[Any], train_labels: NDArray[Any], test: NDArray[Any], test_labels: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[Any], NDArray[np.int64]]:
    """Features (N, D) and labels (N,) of both splits without the images that have no label, checked.

    What every probe begins with; features are copied only where some image has no label.
    """
    kept: list[tuple[NDArray[Any], NDArray[np.int64]]] = []
    for split, features, labels in (("training", train, train_labels), ("test", test, test_labels)):
        must(
            features.ndim == 2 and features.shape[1] > 0,
            DataError,
            f"the features of the {split} split must be (images, dimensions), got shape {features.shape}",
        )
        values = np.asarray(labels, dtype=np.int64)
        _check_length(split, len(values), len(features))
        _check_any(split, values)
        has = values >= 0
        kept.append((features, values) if has.all() else (features[has], values[has]))
    (train, train_values), (test, test_values) = kept
    must(
        train.shape[1] == test.shape[1],
        DataError,
        f"training features have {train.shape[1]} dimensions and test features {test.shape[1]}; both must come from one layer",
    )
    _check_classes(train_values, test_values)
    _check_finite("training", train)
    _check_finite("test", test)
    return train, train_values, test, test_values


def _check_length(split: str, labels: int, images: int) -> None:
    must(
        labels == images,
        DataError,
        f"the {split} split has {images} images but {labels} labels; give one label an image, −1 where it has none",
    )


def _check_numbers(split: str, labels: Labels) -> None:
    if len(labels):
        low, high = int(labels.values.min()), int(labels.values.max())
        must(
            low >= -1 and high < labels.classes,
            DataError,
            f"the labels of the {split} split must lie in −1…{labels.classes - 1} ({labels.classes} names), got {low}…{high}",
        )


def _check_any(split: str, values: NDArray[Any]) -> None:
    must(
        bool((values >= 0).any()),
        DataError,
        f"the {split} split has no labels, and this protocol compares with them; name them: --labels folders, COLUMN or FILE",
    )


def _check_classes(train: NDArray[Any], test: NDArray[Any], names: Sequence[str] | None = None) -> None:
    def name(value: int) -> str:
        return repr(names[value]) if names is not None else str(value)

    known = np.unique(train[train >= 0])
    must(
        len(known) > 1,
        DataError,
        f"all labelled training images are of the one class {name(int(known[0]))}; a score needs at least two classes",
    )
    for value in np.setdiff1d(test[test >= 0], known):
        raise _unseen(name(int(value)), int((test == value).sum()))


def _unseen(name: str, count: int) -> DataError:
    return DataError(
        f"class {name} is in the test split ({count} image{'' if count == 1 else 's'}) but not in the training split; "
        "every class that is tested needs labelled training images"
    )


def _check_finite(split: str, features: NDArray[Any]) -> None:
    for start in range(0, len(features), BLOCK):
        finite = np.isfinite(features[start : start + BLOCK]).all(axis=1)
        if not finite.all():
            row = start + int(np.argmin(finite))
            raise DataError(
                f"the features of the {split} split hold NaN or infinite values (first in row {row} of those with labels); "
                "every row must be finite"
            )
