from __future__ import annotations

import json
import logging
import os
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from run_folders import SOURCE, Counter, contents, hidden, numbers, relations, settings, snapshot

from reliant.config import build
from reliant.errors import DamagedError, RunInUseError, StateError, UsageError
from reliant.records import Features
from reliant.store import Run

Open = Callable[..., Run]


def kinds(path: Path) -> list[str]:
    return [event["kind"] for event in Run.read(path).events()]


def test_a_new_run_says_what_it_is(path: Path, open_run: Open) -> None:
    with open_run(machine={"device": "cpu", "threads": 2}) as run:
        assert run.manifest["status"] == "running"
        run.update_manifest(rounds=[{"round": 0, "loss": np.float32(np.nan)}], verdict={"state": "ok"})
    manifest = json.loads((path / "manifest.json").read_text())
    assert manifest.pop("created").endswith("Z")
    assert manifest.pop("reliant")
    assert manifest == {
        "format": "reliant-run",
        "format_version": 1,
        "status": "finished",
        "preset": "demo",
        "seed": 3,
        "source": SOURCE,
        "machine": {"device": "cpu", "threads": 2},
        "rounds": [{"round": 0, "loss": None}],
        "verdict": {"state": "ok"},
    }
    assert build(tomllib.loads((path / "config.toml").read_text())) == settings()


def test_every_kind_of_value_is_kept(path: Path, open_run: Open) -> None:
    features = Features(values=np.eye(2, dtype=np.float32), learner=3)
    with open_run() as run:
        run.stage("snapshot", Counter(snapshot(1.5)), keys={})
        run.stage("rounds/00/features", Counter(features), keys={})
        run.stage("rounds/00/relations", Counter(relations()), keys={})
        run.stage("rounds/01/learners/3/local", Counter({"loss": [0.5]}), keys={})
    run = Run.read(path)
    assert run.stages() == ["rounds/00/features", "rounds/00/relations", "rounds/01/learners/3/local", "snapshot"]
    assert numbers(run.stored("snapshot").value) == [1.5]
    assert run.stored("rounds/00/features").value.learner == 3
    assert run.stored("rounds/00/relations").value.summary == relations().summary
    assert run.stored("rounds/01/learners/3/local").value == {"loss": [0.5]}


def test_a_stage_that_is_there_is_not_computed_again(path: Path, open_run: Open) -> None:
    compute = Counter(snapshot(1, 2))
    with open_run() as run:
        first = run.stage("a", compute, keys={"k": 1}, inputs=["x"])
        assert (numbers(first.value), run.skipped) == ([1, 2], [])
    with open_run() as run:
        second = run.stage("a", compute, keys={"k": 1}, inputs=["x"])
        assert (numbers(second.value), run.skipped) == ([1, 2], ["a"])
        assert second.value is second.value
    assert compute.calls == 1
    assert (first.digest, first.folder, first.name) == (second.digest, path / "a", "a")


def test_the_digest_does_not_depend_on_the_name(open_run: Open) -> None:
    with open_run() as run:
        one, other = (run.stage(name, Counter({}), keys={"k": 1}) for name in ("a", "b/c"))
    assert one.digest == other.digest


@pytest.mark.parametrize("change", [{"keys": {"k": 2}}, {"inputs": ["y"]}, {"version": 2}])
def test_a_stage_made_from_something_else_is_made_again(path: Path, open_run: Open, change: dict[str, Any]) -> None:
    asked: dict[str, Any] = {"keys": {"k": 1}, "inputs": ["x"], "version": 1}
    with open_run() as run:
        run.stage("a", Counter(snapshot(1)), **asked)
    with open_run() as run:
        assert numbers(run.stage("a", Counter(snapshot(2)), **{**asked, **change}).value) == [2]
        assert run.skipped == []
    assert numbers(Run.read(path).stored("a").value) == [2]
    assert "stage-stale" in kinds(path)
    assert hidden(path) == []


def test_a_value_is_the_same_whether_just_made_or_read(open_run: Open) -> None:
    turned = Features(values=np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3)))
    with open_run() as run:
        fresh = run.stage("f", Counter(turned), keys={}).value
        table = run.stage("t", Counter({"shape": (2, 3)}), keys={}).value
    with open_run() as run:
        read = run.stage("f", Counter(None), keys={}).value
        assert fresh.values.flags.c_contiguous
        assert fresh.values.tobytes() == read.values.tobytes()
        assert table == run.stage("t", Counter(None), keys={}).value == {"shape": [2, 3]}


def test_a_finished_run_is_left_alone(path: Path, open_run: Open) -> None:
    heard: list[dict[str, Any]] = []

    def fit(**options: Any) -> None:
        with open_run(**options) as run:
            run.stage("a", Counter(snapshot(1)), keys={})
            run.stage("b", Counter(snapshot(1)), keys={})
            run.drop("b")
            run.event("round", number=1)
            run.update_manifest(rounds=[{"round": 1, "passes": 0.1 + 0.2}])

    fit()
    before = contents(path)
    fit(machine={"device": "cpu"}, listener=heard.append)
    assert contents(path) == before
    assert [event["kind"] for event in heard] == ["resumed", "stage-skipped", "stage-skipped", "round"]


def test_rounds_can_be_added_but_not_taken_away(path: Path, open_run: Open) -> None:
    for asked, kept in ((2, 2), (4, 4), (1, 4)):
        with open_run(config=settings(rounds={"count": asked})) as run:
            assert run.config.rounds.count == kept
            run.stage(f"rounds/{kept}", Counter({}), keys={})
    assert Run.read(path).config.rounds.count == 4
    assert Run.read(path).manifest["status"] == "finished"


def test_keys_that_no_result_depends_on_may_change(path: Path, open_run: Open) -> None:
    open_run().close()
    changed = settings(machine={"threads": 1}, store={"checkpoint_seconds": 5}, data={"workers": 0})
    with open_run(config=changed) as run:
        assert run.config == changed


def test_other_keys_may_not(path: Path, open_run: Open) -> None:
    open_run().close()
    before = contents(path)
    with pytest.raises(UsageError) as caught:
        open_run(config=settings(seed=4, local={"passes": 20}))
    assert str(caught.value) == (
        f"{path} was made with seed = 3 (asked for 4), local.passes = 40.0 (asked for 20.0); "
        "leave that as it is, or use another --out"
    )
    assert contents(path) == before
    open_run().close()


def test_another_source_is_refused(path: Path, open_run: Open) -> None:
    open_run().close()
    with pytest.raises(UsageError) as caught:
        open_run(source={"name": "other", "digest": "d2", "images": 9})
    assert str(caught.value) == (
        f"{path} was made from 'photos' (7 images), which is not what 'other' (9 images) holds now; use another --out"
    )
    open_run(source={**SOURCE, "name": "moved/photos"}).close()


def test_another_machine_is_a_warning(path: Path, open_run: Open, caplog: pytest.LogCaptureFixture) -> None:
    open_run(machine={"device": "cpu", "threads": 2, "torch": "2.13"}).close()
    with caplog.at_level(logging.WARNING), open_run(machine={"device": "cpu", "threads": 1, "torch": "2.14"}) as run:
        run.stage("a", Counter({}), keys={})
    assert caplog.messages == [
        f"{path} was made with threads = 2, now it is 1: the result is the same up to rounding, not to the bit"
    ]
    [event] = [event for event in Run.read(path).events() if event["kind"] == "machine-changed"]
    assert (event["key"], event["before"], event["now"]) == ("threads", 2, 1)
    assert Run.read(path).manifest["machine"] == {"device": "cpu", "threads": 1, "torch": "2.14"}


def test_a_run_folder_can_be_moved(path: Path, tmp_path: Path, open_run: Open) -> None:
    with open_run() as run:
        run.stage("rounds/00/initial", Counter(snapshot(1)), keys={})
    moved = tmp_path / "elsewhere" / "renamed"
    moved.parent.mkdir()
    path.rename(moved)
    with open_run(path=moved) as run:
        assert numbers(run.stage("rounds/00/initial", Counter(None), keys={}).value) == [1]
    assert not any(str(tmp_path).encode() in content for content, _ in contents(moved).values())


@pytest.mark.parametrize("name", ["notes.txt", "config.toml", ".git", "sub/file"])
def test_a_folder_of_somebody_else_is_not_touched(path: Path, open_run: Open, name: str) -> None:
    (path / name).parent.mkdir(parents=True)
    (path / name).write_text("precious")
    with pytest.raises(UsageError) as caught:
        open_run()
    shown = name.partition("/")[0]
    assert (
        str(caught.value) == f"{path} holds other files ({shown}) and is not a run folder (no manifest.json); use another --out"
    )
    assert contents(path).keys() == {name}


def test_many_files_of_somebody_else_are_not_all_named(path: Path, open_run: Open) -> None:
    path.mkdir()
    for name in "abcd":
        (path / name).touch()
    with pytest.raises(UsageError, match=r"holds other files \(a, b, c, …\)"):
        open_run()


def test_a_manifest_of_somebody_else_is_not_touched(path: Path, open_run: Open) -> None:
    path.mkdir()
    (path / "manifest.json").write_text('{"format": "web-extension"}')
    with pytest.raises(UsageError) as caught:
        open_run()
    assert str(caught.value) == f"{path} holds a manifest.json that is not reliant's; use another --out"
    with pytest.raises(StateError, match=r"is not a run folder \(its manifest.json is not reliant's\)"):
        Run.read(path)
    assert contents(path).keys() == {"manifest.json"}


def test_a_file_is_no_run(path: Path, open_run: Open) -> None:
    path.touch()
    with pytest.raises(UsageError) as caught:
        open_run()
    assert str(caught.value) == f"{path} is a file; use another --out"


def test_an_empty_folder_with_leftovers_of_a_kill_is_free(path: Path, open_run: Open) -> None:
    path.mkdir()
    (path / ".tmp-12-manifest.json").touch()
    (path / ".lock").touch()
    open_run().close()
    assert Run.read(path).manifest["status"] == "finished"


def test_no_run_to_read(tmp_path: Path) -> None:
    with pytest.raises(StateError) as caught:
        Run.read(tmp_path / "none")
    advice = "give the folder that 'reliant fit --out' made"
    assert str(caught.value) == f"{tmp_path / 'none'} is not a run folder (no manifest.json); {advice}"


def test_a_run_of_a_newer_version(path: Path, open_run: Open) -> None:
    open_run().update_manifest(format_version=2)
    with pytest.raises(StateError, match="has format version 2, this reliant reads 1; use the version of reliant that made it"):
        Run.read(path)


def test_a_damaged_manifest_or_configuration_is_named(path: Path, open_run: Open) -> None:
    with open_run() as run:
        run.stage("a", Counter({}), keys={})
    (path / "config.toml").write_text("[local]\npases = 3\n")
    with pytest.raises(
        DamagedError, match=r"config.toml cannot be used \(unknown key 'local.pases'; did you mean 'local.passes'\?\)"
    ):
        open_run()
    (path / "config.toml").unlink()
    with pytest.raises(DamagedError, match=r"config.toml cannot be used \(no configuration file"):
        open_run()
    (path / "manifest.json").write_text('{"format": "relia')
    with pytest.raises(DamagedError, match=r"manifest.json is damaged, or not reliant's .*; restore it, or use another --out$"):
        open_run()


def test_one_writer(path: Path, open_run: Open) -> None:
    with open_run() as run:
        with pytest.raises(RunInUseError) as caught:
            open_run()
        assert str(caught.value) == f"{path} is in use by another process; wait until it ends, or use another --out"
        assert Run.read(path).manifest["status"] == "running"
        run.stage("a", Counter({}), keys={})
    open_run().close()


def test_an_open_that_is_refused_gives_the_lock_back(open_run: Open) -> None:
    open_run().close()
    with pytest.raises(UsageError):
        open_run(config=settings(seed=4))
    open_run().close()


def test_who_reads_does_not_write(path: Path, open_run: Open) -> None:
    with open_run() as run:
        run.stage("a", Counter({"n": 1}), keys={})
    before = contents(path)
    for reader in (Run.read(path), run):
        assert reader.stage("a", Counter(None), keys={}).value == {"n": 1}
        with pytest.raises(StateError, match=r"is not open for writing and stage 'b' is not there; run 'reliant fit' on it$"):
            reader.stage("b", Counter({}), keys={})
        with pytest.raises(StateError, match="not open for writing"):
            reader.drop("a")
        with pytest.raises(StateError, match="not open for writing"):
            reader.update_manifest(verdict="ok")
    with Run.read(path) as reader:
        reader.event("looked")
    assert contents(path) == before


def test_a_stage_that_was_not_reached(path: Path, open_run: Open) -> None:
    open_run().close()
    with pytest.raises(StateError) as caught:
        Run.read(path).stored("rounds/09/features")
    message = "has no stage 'rounds/09/features'; it was not reached, run the command that made the run again"
    assert str(caught.value) == f"{path} {message}"


@pytest.mark.parametrize(
    "name", ["", ".", "/a", "a/", "a//b", "../a", "a/../b", "a/.b", "a\\b", "a.checkpoint", "a.checkpoint/b"]
)
def test_names_of_stages(open_run: Open, name: str) -> None:
    with open_run() as run, pytest.raises(UsageError) as caught:
        run.stage(name, Counter({}), keys={})
    allowed = "a stage's name is a relative POSIX path such as 'rounds/01/learners/3/local'"
    assert str(caught.value) == f"{allowed}, got '{name}'"


def test_a_stage_does_not_lie_inside_another(open_run: Open) -> None:
    with open_run() as run:
        run.stage("a/b", Counter({}), keys={})
        for name in ("a", "a/b/c"):
            with pytest.raises(UsageError, match=f"^a stage does not lie inside another one, but '{name}' would$"):
                run.stage(name, Counter({}), keys={})


def raises(error: BaseException) -> Callable[[object], Any]:
    def compute(slot: object) -> Any:
        raise error

    return compute


def test_how_a_run_ended(path: Path, open_run: Open) -> None:
    with pytest.raises(ValueError, match="odd"), open_run():
        raise ValueError("odd")
    assert Run.read(path).manifest["status"] == "failed"
    assert Run.read(path).manifest["error"] == "ValueError: odd"
    with open_run() as run:
        run.stage("a", Counter({}), keys={})
    with pytest.raises(KeyboardInterrupt), open_run(config=settings(rounds={"count": 9})) as run:
        run.stage("b", raises(KeyboardInterrupt()), keys={})
    assert Run.read(path).manifest["status"] == "interrupted"
    assert "error" not in Run.read(path).manifest
    open_run().close()
    assert Run.read(path).manifest["status"] == "finished"
    assert kinds(path) == [
        *("created", "failed"),
        *("resumed", "stage-started", "stage-finished", "finished"),
        *("resumed", "stage-started", "interrupted"),
        *("resumed", "finished"),
    ]


def test_a_stage_may_ask_for_another_one(path: Path, open_run: Open) -> None:
    with open_run() as run:

        def outer(slot: object) -> dict[str, Any]:
            return {"twice": 2 * run.stage("inner", Counter({"n": 4}), keys={}).value["n"]}

        assert run.stage("outer", outer, keys={}).value == {"twice": 8}
    assert Run.read(path).stages() == ["inner", "outer"]


def test_the_store_works_from_another_working_folder(tmp_path: Path, open_run: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with open_run(path="runs/photos") as run:
        run.stage("a", Counter({}), keys={})
    assert os.listdir("runs") == ["photos"]
