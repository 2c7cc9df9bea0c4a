"""A run that was stopped anywhere and taken up again ends with the bits of one that was not; what was done stays done."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import reliant
from tiny_runs import arrays, fit, pictures, same_bits, same_relations

Make = Callable[..., Any]
# Two rounds of two learners: 6 stages, then twice 9.
STAGES = 24


def same_run(first: Any, second: Any) -> bool:
    relations = all(same_relations(first.relations(row["round"]), second.relations(row["round"])) for row in second.rounds)
    return first.rounds == second.rounds and relations and same_bits(arrays(first), arrays(second))


@pytest.mark.parametrize("stages", range(1, STAGES + 1))
def test_stopped_after_any_stage(base: Any, make: Make, events: Any, killed: Any, stages: int) -> None:
    before, after = events(stop=stages), events()
    with pytest.raises(killed):
        make(progress=before)
    run = make(progress=after)
    assert len(before.of("stage-finished")) == stages
    assert after.of("stage-skipped")[:stages] == before.of("stage-finished")
    assert len(after.of("stage-started")) == STAGES - stages
    assert run.manifest["status"] == "finished"
    assert same_run(base, run)


@pytest.mark.parametrize("steps", [1, 4, 10, 13, 17, 20, 25, 29])
def test_stopped_within_a_stage(base: Any, make: Make, events: Any, killed: Any, steps: int) -> None:
    before, after = events(steps=steps), events()
    with pytest.raises(killed):
        make(progress=before, store__checkpoint_seconds=0.0)
    run = make(progress=after, store__checkpoint_seconds=0.0)
    assert after.of("stage-started")[:1] == before.of("stage-started")[-1:]
    stepped = [event["images"] for event in before if "images" in event and "epoch" not in event]
    # The step that was stopped came before its checkpoint; a stage's first step has none behind it.
    if len(stepped) > 1 and stepped[-2] < stepped[-1]:
        assert after.of("checkpoint-restored") == before.of("stage-started")[-1:]
    assert same_run(base, run)


def test_rounds_that_are_added_are_those_of_a_longer_run(base: Any, make: Make, events: Any) -> None:
    make(rounds__count=0)
    one = make(rounds__count=1)
    assert [row["round"] for row in one.rounds] == [0, 1]
    heard = events()
    two = make(rounds__count=2, progress=heard)
    assert all(name.startswith("rounds/02/") for name in heard.of("stage-started"))
    assert same_run(base, two)
    assert two.round == 2


def test_fewer_rounds_than_there_are_change_nothing(make: Make, events: Any) -> None:
    run = make(rounds__count=1)
    heard = events()
    again = make(rounds__count=0, progress=heard)
    assert heard.of("stage-started") == []
    assert again.rounds == run.rounds


def test_the_same_seed_gives_the_same_bits(base: Any, make: Make) -> None:
    assert same_run(base, make())


def test_another_seed_gives_other_bits(base: Any, make: Make) -> None:
    other = make(seed=1, rounds__count=0)
    first, second = (arrays(run, "rounds/00/initial") for run in (base, other))
    heads = [name for name in first if "head" in name and name.endswith("weight")]
    assert heads
    assert all(first[name].tobytes() != second[name].tobytes() for name in heads)
    assert first["rounds/00/initial: assignment"].tolist() != second["rounds/00/initial: assignment"].tolist()


def test_neither_workers_nor_checkpoints_nor_the_folder_change_a_bit(
    base: Any, make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RELIANT_CACHE", str(tmp_path / "another cache"))
    run = make(out="elsewhere", data__workers=3, store__checkpoint_seconds=0.0, store__features="all")
    assert same_run(base, run)


def test_a_run_can_be_moved_and_taken_up_there(base: Any, make: Make, events: Any, killed: Any, tmp_path: Path) -> None:
    with pytest.raises(killed):
        make(progress=events(stop=9))
    shutil.move(tmp_path / "run", tmp_path / "other place")
    assert same_run(base, fit(tmp_path / "other place"))


def test_a_stage_that_is_deleted_is_made_again_with_the_same_bits(base: Any, make: Make, events: Any) -> None:
    run = make()
    shutil.rmtree(run.path / "rounds/01/learners/0/refined")
    heard = events()
    again = make(progress=heard)
    assert heard.of("stage-started") == ["rounds/01/learners/0/refined"]
    assert same_run(base, again)


def test_a_failed_run_says_so_and_goes_on(base: Any, make: Make, events: Any, killed: Any, tmp_path: Path) -> None:
    with pytest.raises(killed):
        make(progress=events(stop=8))
    failed = reliant.load(tmp_path / "run")
    assert (failed.manifest["status"], failed.manifest["error"]) == ("failed", "Killed: ")
    assert [row["round"] for row in failed.rounds] == [0]
    assert failed.round == 0
    run = make()
    assert run.manifest["status"] == "finished"
    assert "error" not in run.manifest


def test_other_images_or_keys_are_refused(make: Make) -> None:
    make(rounds__count=0)
    with pytest.raises(Exception, match=r"was made from 'images' \(48 images\), which is not what 'images' \(44"):
        make(pictures(44), rounds__count=0)
    with pytest.raises(Exception, match=r"was made with local.passes = 3.0 \(asked for 4.0\)"):
        make(rounds__count=0, local__passes=4)
