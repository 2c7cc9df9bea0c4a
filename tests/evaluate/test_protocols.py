"""The registry of protocols, and a probe over the layers of a round."""

from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import pytest

from reliant.errors import UsageError
from reliant.evaluate.few_shot import few_shot
from reliant.evaluate.knn import knn
from reliant.evaluate.protocol import PROTOCOLS, measure_key, protocol, score_layers, split_key


def refused(message, call, *arguments, **keywords):
    with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
        call(*arguments, **keywords)


def test_the_protocols_and_what_they_need():
    assert list(PROTOCOLS) == ["knn", "linear", "few-shot", "relations"]
    assert protocol("knn").needs == ("features", "labels")
    assert protocol("relations").needs == ("groups", "labels")
    assert all(one.version >= 1 and one.name == name for name, one in PROTOCOLS.items())


def test_an_unknown_protocol_names_the_nearest():
    refused("unknown protocol 'few_shot'; did you mean 'few-shot'?", protocol, "few_shot")
    refused("unknown protocol 'zzz'; allowed: knn, linear, few-shot, relations", protocol, "zzz")


def test_the_conv_layer_gives_accuracy_and_the_final_one_accuracy_final(blobs):
    train, train_labels, test, test_labels = blobs
    layers = {"conv": (train, test), "final": (train[:, :3], test[:, :3]), "conv1": (train[:, 3:], test[:, 3:])}
    scores = score_layers("knn", layers, train_labels, test_labels, k=7)
    assert scores == {
        "accuracy": knn(*blobs, k=7)["accuracy"],
        "accuracy_final": knn(train[:, :3], train_labels, test[:, :3], test_labels, k=7)["accuracy"],
        "accuracy_conv1": knn(train[:, 3:], train_labels, test[:, 3:], test_labels, k=7)["accuracy"],
    }
    assert len(set(scores.values())) == 3


def test_few_shot_has_mean_spread_and_folds_of_both_layers(blobs):
    train, train_labels, test, test_labels = blobs
    layers = {"conv": (train, test), "final": (train, test)}
    scores = score_layers("few-shot", layers, train_labels, test_labels, seed=2, labels=5, folds=2)
    single = few_shot(*blobs, seed=2, labels=5, folds=2)
    assert scores == {**single, **{f"{name}_final": value for name, value in single.items()}}
    assert {"accuracy", "accuracy_std", "accuracy_final", "accuracy_std_final"} <= set(scores)


def test_the_budget_reaches_the_probe(blobs):
    train, train_labels, test, test_labels = blobs
    scores = score_layers("few-shot", {"conv": (train, test)}, train_labels, test_labels, budget="small", labels=5)
    assert sum("fold" in name for name in scores) == 3


@pytest.mark.parametrize("layer", ["conv", "conv3", "final"])
@pytest.mark.parametrize("measure", ["accuracy", "accuracy_std", "C", "accuracy_fold12", "correctness_size4"])
def test_a_key_is_split_into_what_it_was_made_of(measure, layer):
    name, _, fold = measure.partition("_fold")
    assert split_key(measure_key(measure, layer)) == (name, int(fold or -1), layer)


def test_a_key_without_layer_takes_the_given_one():
    assert split_key("coverage_subset0", "final") == ("coverage_subset0", -1, "final")
    assert split_key("accuracy_conv2", "final") == ("accuracy", -1, "conv2")


def test_what_a_probe_cannot_take_is_named(blobs):
    train, train_labels, test, test_labels = blobs
    layers = {"conv": (train, test)}
    message = "'relations' does not score features, it needs groups and labels; probes: ['knn', 'linear', 'few-shot']"
    refused(message, score_layers, "relations", layers, train_labels, test_labels)
    message = "unknown budget 'tiny'; allowed: full, small"
    refused(message, score_layers, "knn", layers, train_labels, test_labels, budget="tiny")
    message = "protocol 'knn' takes no option 'device'; allowed: k, temperature"
    refused(message, score_layers, "knn", layers, train_labels, test_labels, device="cpu")
    message = "unknown layer 'fc7'; allowed: conv, conv1 …, final"
    refused(message, score_layers, "knn", {"fc7": (train, test)}, train_labels, test_labels)


def test_random_features_score_chance_and_better_features_score_better():
    random = np.random.default_rng(0)
    labels = np.arange(800) % 4
    noise, signal = random.normal(size=(800, 8)), np.eye(4)[labels]
    weak, strong = noise[:, :4] + signal, noise[:, :4] + 5 * signal
    layers = {
        "conv1": (noise[:400], noise[400:]),
        "conv": (weak[:400], weak[400:]),
        "final": (strong[:400], strong[400:]),
    }
    for name in ("knn", "linear"):
        scores = score_layers(name, layers, labels[:400], labels[400:])
        assert scores["accuracy_conv1"] < 0.35
        assert 0.35 < scores["accuracy"] < 0.8
        assert scores["accuracy_final"] > 0.95


def test_the_registry_imports_without_torch_sklearn_or_arrow():
    code = (
        "import sys, reliant.evaluate.protocol, reliant.evaluate.scores; "
        "print([name for name in ('torch', 'sklearn', 'pyarrow', 'scipy') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
