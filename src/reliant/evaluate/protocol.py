"""The protocols by name, and a probe run over the layers of one round.

A probe takes features and labels of two splits and returns named scores; ``relations`` takes groups and labels. What a
protocol needs is said by ``needs``, so that a kind which needs a network (transfers) can join the same table.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from ..errors import UsageError, must
from .few_shot import few_shot
from .knn import knn
from .linear import linear
from .relations import relations

BUDGETS = ("full", "small")
LAYER = re.compile(r"conv\d*|final")


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """``run`` does the scoring; ``needs`` are its inputs, ``options`` the keywords it takes beside seed and budget.

    ``version`` goes up whenever the same inputs would get another score.
    """

    name: str
    version: int
    needs: tuple[str, ...]
    run: Callable[..., dict[str, float]]
    options: tuple[str, ...] = ()


PROTOCOLS: dict[str, Protocol] = {
    one.name: one
    for one in (
        Protocol(name="knn", version=1, needs=("features", "labels"), run=knn, options=("k", "temperature")),
        Protocol(name="linear", version=1, needs=("features", "labels"), run=linear, options=("device",)),
        Protocol(
            name="few-shot",
            version=1,
            needs=("features", "labels"),
            run=few_shot,
            options=("labels", "folds", "device", "names"),
        ),
        Protocol(name="relations", version=1, needs=("groups", "labels"), run=relations),
    )
}


def protocol(name: str) -> Protocol:
    """The protocol of this name, or a UsageError with the nearest one."""
    if name not in PROTOCOLS:
        near = difflib.get_close_matches(name, PROTOCOLS, n=1, cutoff=0.5)
        hint = f"did you mean '{near[0]}'?" if near else f"allowed: {', '.join(PROTOCOLS)}"
        raise UsageError(f"unknown protocol '{name}'; {hint}")
    return PROTOCOLS[name]


def score_layers(
    name: str,
    layers: Mapping[str, tuple[NDArray[Any], NDArray[Any]]],
    train_labels: NDArray[Any],
    test_labels: NDArray[Any],
    *,
    seed: int = 0,
    budget: str = "full",
    **options: Any,
) -> dict[str, float]:
    """layer → (train, test) features → named scores: ``accuracy`` of ``conv``, ``accuracy_final`` of ``final``, and so on."""
    probe = protocol(name)
    probes = [one.name for one in PROTOCOLS.values() if "features" in one.needs]
    must(
        name in probes, UsageError, f"'{name}' does not score features, it needs {' and '.join(probe.needs)}; probes: {probes}"
    )
    must(budget in BUDGETS, UsageError, f"unknown budget '{budget}'; allowed: {', '.join(BUDGETS)}")
    for option in options:
        allowed = ", ".join(probe.options)
        must(option in probe.options, UsageError, f"protocol '{name}' takes no option '{option}'; allowed: {allowed}")
    scores: dict[str, float] = {}
    for layer, (train, test) in layers.items():
        must(LAYER.fullmatch(layer) is not None, UsageError, f"unknown layer '{layer}'; allowed: conv, conv1 …, final")
        measures = probe.run(train, train_labels, test, test_labels, seed=seed, budget=budget, **options)
        scores.update({measure_key(measure, layer): value for measure, value in measures.items()})
    return scores


def measure_key(measure: str, layer: str) -> str:
    """The last conv layer carries the protocol's own names; any other is named behind them."""
    return measure if layer == "conv" else f"{measure}_{layer}"


def split_key(key: str, layer: str = "conv") -> tuple[str, int, str]:
    """``MEASURE[_foldF][_LAYER]`` → measure, fold (−1 where none is named) and layer (``layer`` where none is named)."""
    found = re.fullmatch(r"(.+?)(?:_fold(\d+))?(?:_(conv\d+|final))?", key)
    must(found is not None, UsageError, f"'{key}' is no name of a measure")
    assert found is not None
    return found[1], int(found[2] or -1), found[3] or layer
