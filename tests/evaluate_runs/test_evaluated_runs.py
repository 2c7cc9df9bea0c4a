from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import reliant
from reliant.errors import ConfigError, DataError, UsageError
from reliant.evaluate.knn import knn
from reliant.evaluate.relations import score_relations
from reliant.evaluate.run import evaluate
from reliant.evaluate.scores import from_table
from reliant.randomness import generator
from tiny_runs import Trunk, fit, kinds, pictures, tiny

COUNT, NOISE = 60, 120


def noisy(count: int = COUNT, **keys: Any) -> np.ndarray:
    """Pictures that are not told apart at once."""
    return pictures(count, noise=NOISE, **keys)


def scores_of(run: Any, round: int, protocol: str) -> list[Any]:
    """The tidy rows that were kept beside a round."""
    return from_table(pq.read_table(run.path / f"rounds/{round:02d}/scores/{protocol}@blobs.parquet"))


def refused(error: type[Exception], *arguments: Any, **keys: Any) -> str:
    with pytest.raises(error) as caught:
        evaluate(*arguments, **keys)
    return str(caught.value)


def held_out(run: Any) -> tuple[np.ndarray, np.ndarray]:
    """The rows of the two parts, by the documented rule."""
    order, labels = generator(0, "held-out fifth").permutation(COUNT), kinds(COUNT)
    held: list[int] = []
    for kind in range(4):
        members = [row for row in order if labels[row] == kind]
        held += members[: len(members) // 5]
    return np.setdiff1d(np.arange(COUNT), held), np.sort(held)


def test_rounds_ascend_with_their_measures(run: Any) -> None:
    found = evaluate(run)
    assert (found["protocol"], found["dataset"], found["split"]) == ("knn", "blobs", "held-out-fifth")
    assert [row["round"] for row in found["rounds"]] == [0, 1, 2]
    for row in found["rounds"]:
        assert set(row) == {"round", "accuracy", "accuracy_final"}
        assert 0 <= row["accuracy"] <= 1


@pytest.mark.parametrize(("layer", "measure"), [("conv", "accuracy"), ("final", "accuracy_final")])
def test_a_score_is_the_protocols_on_the_features_of_each_round(run: Any, layer: str, measure: str) -> None:
    found = {row["round"]: row[measure] for row in evaluate(run)["rounds"]}
    train, test = held_out(run)
    for round in (0, 1, 2):
        values, labels = run.embed(noisy(), layer=layer, round=round), kinds(COUNT)
        expected = knn(values[train], labels[train], values[test], labels[test])
        assert found[round] == expected["accuracy"]


def test_stripes_and_blobs_are_told_apart(run: Any) -> None:
    assert evaluate(run, rounds="last")["rounds"][0]["accuracy"] > 0.5


@pytest.mark.parametrize(("asked", "expected"), [("all", [0, 1, 2]), ("last", [2]), (1, [1]), ("0", [0])])
def test_the_rounds_asked_for(run: Any, asked: Any, expected: list[int]) -> None:
    whole = {row["round"]: row for row in evaluate(run)["rounds"]}
    found = evaluate(run, rounds=asked)["rounds"]
    assert found == [whole[round] for round in expected]


def test_linear_and_relations_have_measures_of_their_own(run: Any) -> None:
    (linear,) = evaluate(run, "linear", rounds="last", budget="small")["rounds"]
    assert {"accuracy", "accuracy_final"} <= set(linear)
    (relations,) = evaluate(run, "relations", rounds="last")["rounds"]
    assert {"correctness", "correctness_seed", "coverage"} <= set(relations)


def test_relations_are_scored_as_they_were_mined(run: Any) -> None:
    found = evaluate(run, "relations")
    assert (found["dataset"], found["split"]) == ("blobs", "train")
    for row in found["rounds"]:
        mined = run.relations(row["round"])
        expected = score_relations(mined.groups, kinds(COUNT), mined.subsets)
        assert {name: value for name, value in row.items() if name != "round"} == pytest.approx(expected.measures, nan_ok=True)
        kept = pq.read_table(run.path / f"rounds/{row['round']:02d}/scores/correctness.parquet")
        np.testing.assert_array_equal(kept["correctness"].to_numpy(), expected.of_group)


def test_every_learner_before_and_after_its_refinement(run: Any) -> None:
    found = evaluate(run, learners="all")["rounds"]
    assert found[0]["learners"] == []
    for row in found[1:]:
        who = [(one["learner"], one["stage"]) for one in row["learners"]]
        assert who == [(0, "local"), (0, "refined"), (1, "local"), (1, "refined")]
        chosen = run.rounds[row["round"]]["chosen"]
        best = next(one for one in row["learners"] if (one["learner"], one["stage"]) == (chosen, "refined"))
        assert (best["accuracy"], best["accuracy_final"]) == (row["accuracy"], row["accuracy_final"])
    rows = scores_of(run, 1, "knn")
    assert {row.learner for row in rows} == {"chosen", "0:local", "0:refined", "1:local", "1:refined"}


def test_scores_are_kept_as_tidy_rows(run: Any) -> None:
    found = evaluate(run, rounds=1)["rounds"][0]
    rows = scores_of(run, 1, "knn")
    assert [(row.measure, row.layer, row.value) for row in rows] == [
        ("accuracy", "conv", found["accuracy"]),
        ("accuracy", "final", found["accuracy_final"]),
    ]
    for row in rows:
        assert (row.dataset, row.split, row.method, row.protocol, row.round) == ("blobs", "held-out-fifth", "default", "knn", 1)
        assert (row.learner, row.seed, row.n, row.budget) == ("chosen", 0, 12, "full")
        assert row.run == run.folder.stored("rounds/01/representation").digest


def test_the_passes_of_a_row_are_those_spent_until_its_round(run: Any) -> None:
    evaluate(run)
    passes = [scores_of(run, round, "knn")[0].passes for round in (0, 1, 2)]
    assert passes[0] == pytest.approx(6 + 2 / 3, abs=16 / COUNT)
    assert passes == sorted(passes)
    assert passes[2] == pytest.approx(run.budget.passes)


def test_evaluating_changes_nothing_that_was_learned(run: Any) -> None:
    before = (run.path / "manifest.json").read_bytes()
    evaluate(run)
    assert (run.path / "manifest.json").read_bytes() == before
    assert reliant.load(run.path, network=Trunk()).folder.stages() == run.folder.stages()


def test_rounds_are_told_as_they_come(run: Any) -> None:
    told: list[dict[str, Any]] = []
    found = evaluate(run, watch=told.append)
    assert told == found["rounds"]


def test_a_path_an_open_run_and_twice_give_the_same(run: Any, tmp_path: Path) -> None:
    named = reliant.fit(noisy(20), out=tmp_path / "named", config=tiny(rounds__count=0, initial__passes=1))
    source = tmp_path / "twenty.npz"
    np.savez(source, images=noisy(20), labels=kinds(20))
    assert evaluate(named.path, data=source) == evaluate(named, data=source) == evaluate(str(named.path), data=str(source))


def test_labels_from_a_file_and_a_column(run: Any, labelled: Path, tmp_path: Path) -> None:
    table = tmp_path / "labels.csv"
    table.write_text("id,label\n" + "".join(f"{row},kind{kind}\n" for row, kind in enumerate(kinds(COUNT))))
    assert evaluate(run, labels=table)["rounds"] == evaluate(run)["rounds"] == evaluate(run, labels="labels")["rounds"]


def test_a_test_source_of_its_own(run: Any, labelled: Path, tmp_path: Path) -> None:
    test = tmp_path / "test.npz"
    images, labels = noisy(8, seed=5)[::-1], kinds(8)[::-1]
    np.savez(test, images=images, labels=labels)
    found = evaluate(run, test=test, rounds="last")
    assert found["split"] == "test"
    values, others = run.embed(noisy(), layer="conv"), run.embed(images.copy(), layer="conv")
    assert found["rounds"][0]["accuracy"] == knn(values, kinds(COUNT), others, labels)["accuracy"] > 0.5
    assert scores_of(run, 2, "knn")[0].n == 8


def test_images_without_a_label_do_not_count(run: Any, tmp_path: Path) -> None:
    test, labels = tmp_path / "test.npz", kinds(8)
    labels[[1, 6]] = -1
    np.savez(test, images=noisy(8, seed=5), labels=labels)
    evaluate(run, test=test, rounds="last")
    assert scores_of(run, 2, "knn")[0].n == 6


def test_other_data_than_the_runs(run: Any, tmp_path: Path) -> None:
    other = tmp_path / "other.npz"
    np.savez(other, images=noisy(40, size=20, seed=7), labels=kinds(40))
    found = evaluate(run, data=other, rounds="last")
    assert (found["dataset"], len(found["rounds"])) == ("other", 1)


def test_relations_need_the_images_that_they_were_mined_from(run: Any, tmp_path: Path) -> None:
    other = tmp_path / "other.npz"
    np.savez(other, images=noisy(seed=7), labels=kinds(COUNT))
    assert refused(UsageError, run, "relations", data=other) == (
        f"protocol 'relations' needs the images that {run.path} was made from ('blobs', {COUNT} images), "
        f"got 'other' ({COUNT}); leave out --data, or name that source"
    )
    same = tmp_path / "same.npz"
    np.savez(same, images=noisy(), labels=kinds(COUNT))
    last = [evaluate(run, "relations", data=data, rounds="last")["rounds"][0] for data in (same, None)]
    assert last[0] == pytest.approx(last[1], nan_ok=True)


def test_a_random_network_is_a_baseline(labelled: Path) -> None:
    found = evaluate("random:small", data=labelled)
    assert [row["round"] for row in found["rounds"]] == [0]
    assert evaluate("random:small", data=labelled) == found
    finals = {evaluate("random:small", data=labelled, seed=seed)["rounds"][0]["accuracy_final"] for seed in range(4)}
    assert len(finals) > 1


def test_a_file_of_weights(labelled: Path, tmp_path: Path) -> None:
    run = reliant.fit(labelled, out=tmp_path / "named", config=tiny(rounds__count=0, initial__passes=2))
    found = evaluate(run.path / "rounds/00/representation/arrays.safetensors", data=labelled)
    assert found["rounds"] == evaluate(run)["rounds"]


def test_networks_of_every_kind(run: Any, labelled: Path, tmp_path: Path) -> None:
    expected = evaluate(run, data=labelled, rounds="last")["rounds"][0]
    (found,) = evaluate(run.network, data=labelled)["rounds"]
    assert found == {**expected, "round": 0}
    both = fit(tmp_path / "both", labelled, rounds__choice="concatenate", rounds__count=1)
    (found,) = evaluate(both.network, data=labelled)["rounds"]
    assert found == {**evaluate(both, rounds="last")["rounds"][0], "round": 0}


def test_a_users_own_module_is_asked_for_its_maps(labelled: Path) -> None:
    class Means(Trunk):
        def forward(self, images: Any) -> Any:
            return super().forward(images).mean(dim=(2, 3))

    (found,) = evaluate(Means(), data=labelled)["rounds"]
    assert set(found) == {"round", "accuracy", "accuracy_final"}


def test_few_labels_of_every_class(run: Any, tmp_path: Path) -> None:
    message = refused(DataError, run, "few-shot")
    assert "labelled training image" in message


@pytest.mark.parametrize(
    ("keys", "error", "message"),
    [
        ({"protocol": "knnn"}, UsageError, "unknown protocol 'knnn'; did you mean 'knn'?"),
        ({"protocol": "zzz"}, UsageError, "unknown protocol 'zzz'; allowed: knn, linear, few-shot, relations"),
        ({"learners": "some"}, UsageError, "learners is 'chosen' or 'all', got 'some'"),
        ({"rounds": "7"}, UsageError, "--rounds takes all, last or one of [0, 1, 2], got '7'"),
        ({"rounds": "first"}, UsageError, "--rounds takes all, last or one of [0, 1, 2], got 'first'"),
        ({"budget": "huge"}, UsageError, "unknown budget 'huge'; allowed: full, small"),
    ],
)
def test_what_cannot_be_meant(run: Any, keys: dict[str, Any], error: type[Exception], message: str) -> None:
    assert refused(error, run, **keys) == message


def test_targets_that_are_none(run: Any, labelled: Path, tmp_path: Path) -> None:
    assert refused(UsageError, "nothing") == (
        "no run folder and no weights at nothing; give RUN, a .safetensors file or random:NETWORK"
    )
    assert refused(UsageError, 7) == "evaluate takes a run, a path or an nn.Module, got int"
    assert refused(ConfigError, "random:smal", data=labelled) == ("unknown network.name 'smal'; did you mean 'small'?")
    assert refused(UsageError, "random:small") == "there is no source to evaluate on; name one: --data SOURCE"
    assert refused(UsageError, "random:small", "relations", data=labelled) == (
        "protocol 'relations' scores the groups of a run; give a run folder"
    )


def test_a_run_of_arrays_needs_a_source(tmp_path: Path) -> None:
    arrays = fit(tmp_path / "arrays", noisy(20), rounds__count=0)
    assert refused(UsageError, arrays) == "there is no source to evaluate on; name one: --data SOURCE"


def test_a_source_without_labels(run: Any, tmp_path: Path) -> None:
    np.save(tmp_path / "plain.npy", noisy(20))
    message = refused(DataError, run, data=tmp_path / "plain.npy")
    assert message == ("plain has no labels: no column 'label' and no two sub-folders; give a column or a .csv file (id,label)")


def test_the_public_name_can_be_called_whenever_what_was_imported() -> None:
    code = """
import reliant
for _ in range(2):
    try:
        reliant.evaluate("nothing")
    except reliant.UsageError as error:
        print(error)
import reliant.evaluate.run
from reliant import evaluate
try:
    evaluate("nothing")
except reliant.UsageError as error:
    print(error)
assert reliant.evaluate is evaluate
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert len(set(done.stdout.splitlines())) == 1
    assert len(done.stdout.splitlines()) == 3
