from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reliant.learning import loop
from reliant.randomness import derive
from reliant.relations import mining
from tiny_runs import arrays, pictures

Make = Callable[..., Any]

VIEWS = ("view-1", "view-2", "other-layer")
MINED = ["features", "neighbours", "relations", "health"]
INITIAL = [f"rounds/00/{name}" for name in ("initial", "representation", *MINED)]


def round_of(turn: int, *training: str) -> list[str]:
    return [f"rounds/{turn:02d}/{name}" for name in (*training, "representation", *MINED)]


def learners(turn: int, count: int, *stages: str) -> list[str]:
    return round_of(turn, *(f"learners/{learner}/{stage}" for stage in stages for learner in range(count)))


def test_the_steps_of_algorithm_1_in_its_order(make: Make, events: Any) -> None:
    heard = events()
    make(progress=heard)
    expected = INITIAL + learners(1, 2, "local", "refined") + learners(2, 2, "local", "refined")
    assert heard.of("stage-started") == heard.of("stage-finished") == expected
    assert heard.of("stage-skipped") == []


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"rounds__count": 0}, INITIAL),
        ({"rounds__count": 1, "refine__passes": 0}, INITIAL + learners(1, 2, "local")),
        ({"rounds__count": 1, "subsets__count": 3}, INITIAL + learners(1, 3, "local", "refined")),
        ({"rounds__count": 1, "subsets__mode": "whole"}, INITIAL + learners(1, 1, "local", "refined")),
        ({"rounds__count": 1, "rounds__objective": "triplets"}, INITIAL + round_of(1, "ranking")),
        ({"rounds__count": 1, "rounds__control": True}, INITIAL + round_of(1, "control/local", "control/refine")),
        ({"rounds__count": 1, "rounds__control": True, "refine__passes": 0}, INITIAL + round_of(1, "control/local")),
    ],
)
def test_the_steps_of_the_other_arms(make: Make, events: Any, keys: dict[str, Any], expected: list[str]) -> None:
    heard = events()
    make(progress=heard, **keys)
    assert heard.of("stage-started") == expected


def test_evidence_is_mined_beside_the_neighbours(make: Make, events: Any) -> None:
    heard = events()
    make(progress=heard, rounds__count=0, features__views=2, features__agreement=True)
    parts = ("features", "neighbours", *(f"{place}/{name}" for place in VIEWS for name in ("features", "neighbours")))
    assert heard.of("stage-started") == INITIAL[:2] + [f"rounds/00/{name}" for name in (*parts, "relations", "health")]


def test_every_stage_draws_under_a_key_of_its_own(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    keys: list[Any] = []
    seeds: list[int] = []
    train, mine = loop.train, mining.mine
    monkeypatch.setattr(loop, "train", lambda phi, objective, work: keys.append(work.key) or train(phi, objective, work))
    monkeypatch.setattr(mining, "mine", lambda *features, **stages: seeds.append(stages["seed"]) or mine(*features, **stages))
    make(seed=5)
    trained = [(5, stage, turn, learner) for turn in (1, 2) for stage in ("local", "refine") for learner in (0, 1)]
    assert keys == [(5, "initial"), *trained]
    assert seeds == [derive(5, "relations", turn) for turn in (0, 1, 2)]


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != ".lock")
    return {path.relative_to(folder).as_posix(): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def test_a_finished_run_is_left_alone(make: Make, events: Any) -> None:
    first = events()
    run = make(progress=first)
    before = contents(run.path)
    heard = events()
    again = make(progress=heard)
    assert heard.of("stage-started") == []
    assert heard.of("stage-skipped") == first.of("stage-started")
    assert contents(run.path) == before
    assert again.rounds == run.rounds


def test_every_round_has_its_row(base: Any) -> None:
    assert [row["round"] for row in base.rounds] == [0, 1, 2]
    for row in base.rounds:
        summary = base.relations(row["round"]).summary
        assert (row["groups"], row["coverage"]) == (summary["groups"], summary["coverage"])
        assert row["verdict"]["state"] == "ok"
        assert set(row["health"]) == {"spread", "effective_rank", "neighbour_ratio"}
    assert (base.round, base.manifest["status"], base.verdict.state) == (2, "finished", "ok")


def test_features_of_the_last_round_alone_are_kept(base: Any, make: Make) -> None:
    def kept(run: Any) -> list[str]:
        return [path.parent.relative_to(run.path).as_posix() for path in sorted(run.path.rglob("features.safetensors"))]

    assert kept(base) == ["rounds/02/features"]
    assert kept(make(rounds__count=1, store__features="all")) == ["rounds/00/features", "rounds/01/features"]


def test_every_learner_is_kept_before_and_after_its_refinement(base: Any) -> None:
    assert base.learners(0) == []
    assert base.learners(1) == base.learners(2) == [0, 1]
    saved = arrays(base)
    for stage in ("learners/0/local", "learners/0/refined", "learners/1/local", "learners/1/refined"):
        assert any(name.startswith(f"rounds/02/{stage}: network.") for name in saved)


def test_refinement_starts_from_local_learning_and_the_round_from_the_one_before(base: Any) -> None:
    """A stage names the digests of what it was made from."""

    def record(stage: str) -> dict[str, Any]:
        return dict(json.loads((base.path / stage / "stage.json").read_text(encoding="utf-8")))

    digests = {name: record(name)["digest"] for name in base.folder.stages()}
    chosen = base.rounds[1]["chosen"]
    for learner in (0, 1):
        local = record(f"rounds/02/learners/{learner}/local")["inputs"]
        assert digests[f"rounds/01/learners/{chosen}/refined"] in local
        assert digests["rounds/01/relations"] in local
        refined = record(f"rounds/02/learners/{learner}/refined")["inputs"]
        assert digests[f"rounds/02/learners/{learner}/local"] in refined
        assert digests["rounds/01/relations"] in refined
    assert record("rounds/02/representation")["inputs"] == [digests[f"rounds/02/learners/{place}/refined"] for place in (0, 1)]
    assert digests["rounds/02/representation"] in record("rounds/02/features")["inputs"]


def test_the_manifest_says_what_the_images_are(make: Make) -> None:
    grey, colour = make(rounds__count=0), make(pictures(channels=3), out="colour", rounds__count=0)
    assert (grey.manifest["source"]["channels"], colour.manifest["source"]["channels"]) == (1, 3)
    assert grey.manifest["source"]["images"] == 48
