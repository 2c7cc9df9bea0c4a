"""Labels that cannot be scored against, each with its one line."""

from __future__ import annotations

import re

import numpy as np
import pytest

from reliant.errors import DataError
from reliant.evaluate.labels import check_labels, labelled
from reliant.records import Labels

NAMES = ["cat", "dog", "frog"]


def labels(values, names=NAMES):
    return Labels(values=np.array(values, dtype=np.int32), names=list(names))


def refused(message, call, *arguments, **keywords):
    with pytest.raises(DataError, match=f"^{re.escape(message)}$"):
        call(*arguments, **keywords)


def test_good_labels_come_back_as_they_are():
    train, test = check_labels(labels([0, 1, 2, -1]), labels([2, -1, 0]), train_images=4, test_images=3)
    assert train.tolist() == [0, 1, 2, -1]
    assert test.tolist() == [2, -1, 0]


def test_classes_are_matched_by_name():
    train, test = check_labels(labels([0, 1, 2]), labels([0, 1, -1, 0], ["dog", "frog"]))
    assert train.tolist() == [0, 1, 2]
    assert test.tolist() == [1, 2, -1, 1]
    _, test = check_labels(labels([0, 1, 2]), labels([2, 0, 0], ["frog", "no image has this one", "cat"]))
    assert test.tolist() == [0, 2, 2]


def test_no_labels():
    message = "the {} split has no labels, and this protocol compares with them; name them: --labels folders, COLUMN or FILE"
    refused(message.format("training"), check_labels, labels([-1, -1]), labels([0, 1]))
    refused(message.format("test"), check_labels, labels([0, 1]), labels([-1]))
    refused(message.format("test"), check_labels, labels([0, 1]), labels([]))


def test_one_class_only():
    message = "all labelled training images are of the one class 'dog'; a score needs at least two classes"
    refused(message, check_labels, labels([1, 1, -1]), labels([1]))


def test_a_class_that_training_lacks():
    message = (
        "class 'frog' is in the test split (2 images) but not in the training split; "
        "every class that is tested needs labelled training images"
    )
    refused(message, check_labels, labels([0, 1]), labels([2, 0, 2]))
    refused(message, check_labels, labels([0, 1], NAMES[:2]), labels([2, 0, 2]))
    refused(message.replace("2 images", "1 image"), check_labels, labels([0, 1]), labels([2]))


def test_lengths():
    message = "the {} split has {} images but 2 labels; give one label an image, −1 where it has none"
    refused(message.format("training", 3), check_labels, labels([0, 1]), labels([0, 1]), train_images=3)
    refused(message.format("test", 1), check_labels, labels([0, 1]), labels([0, 1]), test_images=1)


def test_values_without_a_name():
    message = "the labels of the test split must lie in −1…2 (3 names), got 0…3"
    refused(message, check_labels, labels([0, 1]), labels([0, 3]))
    message = "the labels of the training split must lie in −1…2 (3 names), got -2…1"
    refused(message, check_labels, labels([-2, 1]), labels([0]))


def test_labelled_keeps_what_has_a_label_without_a_copy():
    train, test = np.eye(3), np.ones((2, 3))
    kept = labelled(train, np.array([0, 1, 1]), test, np.array([-1, 1]))
    assert kept[0] is train
    assert kept[1].tolist() == [0, 1, 1]
    assert kept[2].shape == (1, 3)
    assert kept[3].tolist() == [1]


def test_labelled_refuses_what_no_probe_can_use():
    two, both = np.eye(2), np.array([0, 1])
    message = "all labelled training images are of the one class 4; a score needs at least two classes"
    refused(message, labelled, two, np.array([4, 4]), two, both)
    message = (
        "class 7 is in the test split (1 image) but not in the training split; "
        "every class that is tested needs labelled training images"
    )
    refused(message, labelled, two, both, two, np.array([0, 7]))
    message = "the test split has 2 images but 1 labels; give one label an image, −1 where it has none"
    refused(message, labelled, two, both, two, np.array([0]))
    message = "training features have 2 dimensions and test features 3; both must come from one layer"
    refused(message, labelled, two, both, np.eye(3)[:2], both)
    message = "the features of the training split must be (images, dimensions), got shape (2, 2, 1)"
    refused(message, labelled, two[:, :, None], both, two, both)
    message = (
        "the features of the training split hold NaN or infinite values (first in row 1 of those with labels); "
        "every row must be finite"
    )
    refused(message, labelled, np.array([[1.0], [np.nan]]), both, np.ones((2, 1)), both)
