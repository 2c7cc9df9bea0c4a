"""Evaluate a subject by one protocol, round by round: networks and labelled images → named scores.

The only part of reliant that reads labels. Scores are returned, and kept beside each round of a run as tidy rows.
"""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..data import open_source
from ..errors import UsageError, must
from ..records import Images, Score
from ..store import write_bytes
from .protocol import protocol as protocol_named
from .protocol import score_layers
from .relations import score_relations
from .scores import rows, to_table
from .splits import Split, Splits, labelled_images, open_splits
from .subjects import Subject, open_subject

if TYPE_CHECKING:
    from torch import nn

Watch = Callable[[dict[str, Any]], None]
# Few-shot folds: labels a class, and above how many classes there are fewer (Tiny ImageNet has 200).
_FEW, _MANY_CLASSES, _FEWER = 100, 100, 25


def evaluate(
    target: Any,
    protocol: str = "knn",
    *,
    data: Any = None,
    test: Any = None,
    labels: str | Path = "auto",
    rounds: str | int = "all",
    learners: str = "chosen",
    budget: str = "full",
    seed: int = 0,
    watch: Watch | None = None,
) -> dict[str, Any]:
    """Scores by round: ``{"protocol", "dataset", "split", "rounds": [{"round": 0, measure: value, …}, …]}``.

    ``target`` is a run, a weights file, ``random:NETWORK`` or an nn.Module; without ``data`` the run's own source is used.
    """
    chosen = protocol_named(protocol)
    must(learners in ("chosen", "all"), UsageError, f"learners is 'chosen' or 'all', got '{learners}'")
    subject = open_subject(target, seed)
    data = _source_of(subject) if data is None else data
    if "groups" in chosen.needs:
        return _evaluate_relations(subject, data, labels, str(rounds), budget, watch)
    splits = open_splits(data, test, labels, _preprocessing(subject))
    options: dict[str, Any] = {}
    if "device" in chosen.options:
        options["device"] = subject.device().torch.type
    if protocol == "few-shot":
        options |= {"labels": _FEW if len(splits.names) <= _MANY_CLASSES else _FEWER, "names": splits.names}

    def score(phi: nn.Module) -> dict[str, float]:
        layers = _layers(subject, phi, splits)
        return score_layers(protocol, layers, splits.train.labels, splits.test.labels, seed=seed, budget=budget, **options)

    results, tested = [], int((splits.test.labels >= 0).sum())
    for round in subject.rounds(str(rounds)):
        measures = score(subject.network_of(round))
        kept = _rows(subject, splits.name, splits.split, protocol, round, measures, tested, budget, seed)
        row: dict[str, Any] = {"round": round, **measures}
        if learners == "all" and subject.run is not None:
            row["learners"] = []
            for learner, refined in _learners(subject, round):
                measures = score(subject.network_of(round, learner, refined))
                stage = "refined" if refined else "local"
                row["learners"].append({"learner": learner, "stage": stage, **measures})
                name = f"{learner}:{stage}"
                kept += _rows(subject, splits.name, splits.split, protocol, round, measures, tested, budget, seed, name)
        _keep(subject, protocol, round, kept)
        results.append(row)
        if watch is not None:
            watch(row)
    return {"protocol": protocol, "dataset": splits.name, "split": splits.split, "rounds": results}


def _evaluate_relations(
    subject: Subject, data: Any, how: str | Path, rounds: str, budget: str, watch: Watch | None
) -> dict[str, Any]:
    must(subject.run is not None, UsageError, "protocol 'relations' scores the groups of a run; give a run folder")
    assert subject.run is not None
    source = open_source(data)
    images, labels = labelled_images(source, _preprocessing(subject), how)
    mined_from = subject.run.manifest["source"]
    must(
        images.digest == mined_from["digest"],
        UsageError,
        f"protocol 'relations' needs the images that {subject.run.path} was made from ('{mined_from['name']}', "
        f"{mined_from['images']} images), got '{source.name}' ({len(images)}); leave out --data, or name that source",
    )
    results = []
    for round in subject.rounds(rounds):
        mined = subject.run.relations(round)
        scored = score_relations(mined.groups, labels.values, mined.subsets)
        kept = _rows(subject, source.name, "train", "relations", round, scored.measures, len(mined.groups), budget, 0)
        _keep(subject, "relations", round, kept)
        _keep_correctness(subject, round, scored.of_group)
        row = {"round": round, **scored.measures}
        results.append(row)
        if watch is not None:
            watch(row)
    return {"protocol": "relations", "dataset": source.name, "split": "train", "rounds": results}


def _source_of(subject: Subject) -> Any:
    spec = subject.run.manifest["source"].get("spec") if subject.run is not None else None
    must(spec is not None, UsageError, "there is no source to evaluate on; name one: --data SOURCE")
    return spec


def _preprocessing(subject: Subject) -> Any:
    return subject.config.data.model_copy(update={"channels": subject.channels})


def _layers(subject: Subject, phi: nn.Module, splits: Splits) -> dict[str, tuple[NDArray[Any], NDArray[Any]]]:
    """Features of both splits, layer by layer; images that both share are run once."""
    from ..learning import features
    from ..learning.pixels import Pixels

    device = subject.device()
    phi = phi.to(device.torch)

    def of(images: Images) -> dict[str, Any]:
        return features.extract_layers(phi, Pixels(images.pixels, device.torch), device)

    train = of(splits.train.images)
    test = train if splits.test.images is splits.train.images else of(splits.test.images)
    return {layer: (_taken(train[layer], splits.train), _taken(test[layer], splits.test)) for layer in train}


def _taken(values: NDArray[Any], split: Split) -> NDArray[Any]:
    return values if len(split.rows) == len(values) else values[split.rows]


def _learners(subject: Subject, round: int) -> list[tuple[int, bool]]:
    """Every φ_k of a round before and after the refinement."""
    assert subject.run is not None
    stages = [False, True] if subject.config.refine.passes else [False]
    return [(learner, refined) for learner in subject.run.learners(round) for refined in stages]


def _rows(
    subject: Subject,
    dataset: str,
    split: str,
    protocol: str,
    round: int,
    measures: dict[str, float],
    n: int,
    budget: str,
    seed: int,
    learner: str = "chosen",
) -> list[Score]:
    run = subject.run
    digest = "" if run is None else run.folder.stored(f"rounds/{round:02d}/representation").digest
    return rows(
        measures,
        protocol=protocol,
        dataset=dataset,
        split=split,
        method=subject.method,
        preset=subject.preset,
        round=round,
        seed=subject.config.seed if run is not None else seed,
        n=n,
        passes=subject.passes(round),
        run=digest,
        learner=learner,
        budget=budget,
    )


def _keep(subject: Subject, protocol: str, round: int, kept: list[Score]) -> None:
    """Tidy rows beside the round; nothing is kept of a subject that is no run."""
    _write(subject, round, f"{protocol}@{kept[0].dataset.replace('/', '_')}.parquet", to_table(kept))


def _keep_correctness(subject: Subject, round: int, of_group: NDArray[np.float32]) -> None:
    """Each group's own correctness, for the report."""
    import pyarrow as pa

    _write(subject, round, "correctness.parquet", pa.table({"correctness": of_group}))


def _write(subject: Subject, round: int, name: str, table: Any) -> None:
    import pyarrow.parquet as pq

    if subject.run is None:
        return
    folder = subject.run.path / f"rounds/{round:02d}" / "scores"
    folder.mkdir(exist_ok=True)
    buffer = BytesIO()
    pq.write_table(table, buffer)
    write_bytes(folder / name, buffer.getvalue())
