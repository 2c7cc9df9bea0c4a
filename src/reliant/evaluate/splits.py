"""The labelled images that a representation is scored with: a training and a test split.

A known name brings its own test split; of any other source a fixed fifth is held out, class by class.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..data import Source, load_images, open_source, read_labels, test_source
from ..randomness import generator
from ..records import Images, Labels
from .labels import check_labels

if TYPE_CHECKING:
    from ..config import Data

# Of a source that has no test split, every so many labelled images of a class are held out.
_HELD_OUT = 5


@dataclass(frozen=True, kw_only=True)
class Split:
    """Images of one source and which of them a split takes."""

    images: Images
    rows: NDArray[np.int64]
    labels: NDArray[np.int32]


@dataclass(frozen=True, kw_only=True)
class Splits:
    """``name`` of the data, ``split`` as a Score names it."""

    train: Split
    test: Split
    names: list[str]
    name: str
    split: str


def labelled_images(source: Source, data: Data, how: str | Path) -> tuple[Images, Labels]:
    """All good images of a source and their labels."""
    images, _ = load_images(source, data, minimum=1)
    return images, read_labels(source, how, ids=images.ids)


def open_splits(data: Any, test: Any, how: str | Path, preprocessing: Data) -> Splits:
    """Training and test images for a probe."""
    source = open_source(data)
    images, labels = labelled_images(source, preprocessing, how)
    tested = open_source(test) if test is not None else test_source(source)
    if tested is not None:
        channels = str(images.pixels.shape[3])
        other, other_labels = labelled_images(tested, preprocessing.model_copy(update={"channels": channels}), how)
        values, other_values = check_labels(labels, other_labels, train_images=len(images), test_images=len(other))
        everything = Split(images=images, rows=np.arange(len(images)), labels=values)
        held = Split(images=other, rows=np.arange(len(other)), labels=other_values)
        return Splits(train=everything, test=held, names=labels.names, name=source.name, split="test")
    rows, held_rows = _hold_out(labels.values)
    check_labels(
        Labels(values=labels.values[rows], names=labels.names), Labels(values=labels.values[held_rows], names=labels.names)
    )
    parts = [Split(images=images, rows=one, labels=labels.values[one]) for one in (rows, held_rows)]
    return Splits(train=parts[0], test=parts[1], names=labels.names, name=source.name, split="held-out-fifth")


def _hold_out(labels: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows that stay and rows that are held out: a fifth of every class, the same for every run and seed."""
    order = generator(0, "held-out fifth").permutation(len(labels))
    held = np.zeros(len(labels), dtype=bool)
    for value in np.unique(labels[labels >= 0]):
        members = order[labels[order] == value]
        # At least one of a class that has two, so that a small source can be scored at all.
        held[members[: max(len(members) // _HELD_OUT, min(1, len(members) - 1))]] = True
    labelled = labels >= 0
    return np.flatnonzero(labelled & ~held), np.flatnonzero(labelled & held)
