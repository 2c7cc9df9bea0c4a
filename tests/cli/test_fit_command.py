from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from command_lines import Ran, contents

from reliant.trained import TrainedRun

Command = Callable[..., Ran]


def test_fit_says_what_it_costs_then_trains_then_shows_the_rounds(made: tuple[Path, Ran]) -> None:
    out, done = made
    assert done.code == 0
    cost, table = done.out.split("round", 1)
    assert cost.splitlines()[0].split() == ["source", *["48", "images", "of", "photos,", "12", "×", "12,", "grey"]]
    assert cost.splitlines()[1].split() == ["run", f"{out},", "preset", "smoke"]
    assert "passes  6.67: initialisation 2, local learning 2, refinement 2, features 0.667" in cost
    assert "images/s, measured" in cost
    rows = [line.split() for line in table.splitlines() if line.strip().startswith(("0 ", "1 "))]
    assert [row[0] for row in rows] == ["0", "1"]
    assert all(row[-1] == "ok" for row in rows)
    assert done.out.splitlines()[-2:] == [f"{out} holds it, round 1 is its result", f"next: reliant evaluate {out}"]


def test_elsewhere_than_on_a_terminal_progress_is_a_line_a_stage_and_a_round(made: tuple[Path, Ran]) -> None:
    _, done = made
    lines = done.err.splitlines()
    stages = [line.split(" · epoch ")[0].split(" · ", 1)[1] for line in lines if " · epoch " in line]
    assert stages == [
        "initialisation",
        "round 1 · learner 1 of 2 · local",
        "round 1 · learner 2 of 2 · local",
        "round 1 · learner 1 of 2 · refinement",
        "round 1 · learner 2 of 2 · refinement",
    ]
    assert all("loss" in line and "churn" in line and "images/s" in line for line in lines if " · epoch " in line)
    assert all(line.endswith(" left") for line in lines if " · epoch " in line)
    assert [line.split(" · ")[0] for line in lines if line.endswith(" · ok")] == ["round 0", "round 1"]
    shares = [int(line.split("%")[0]) for line in lines if line.lstrip()[:1].isdigit()]
    assert shares == sorted(shares)
    assert "\x1b" not in done.err


def test_json_of_a_fit(shell: Command, photos: Path, settings: Path) -> None:
    done = shell("fit", photos, "--config", settings, "--preset", "smoke", "--out", "made", "--json")
    found = done.json
    assert list(found) == ["run", "status", "rounds", "result", "verdict", "cost", "passes", "seconds", "quarantined"]
    assert (found["run"], found["status"], found["result"], found["quarantined"]) == ("made", "finished", 1, 0)
    assert found["verdict"] == {"state": "ok", "reason": "", "advice": ""}
    assert [row["round"] for row in found["rounds"]] == [0, 1]
    assert all(2 <= row["mean_size"] <= 4 and 0 < row["coverage"] <= 1 for row in found["rounds"])
    assert found["cost"]["parts"] == {"initial": 2.0, "local": 2.0, "refine": 2.0, "features": 0.67}
    assert found["cost"]["passes"] == 6.67
    assert found["passes"] == pytest.approx(6.67, rel=0.15)
    assert "images/s, measured" in done.err
    assert "round 1 · " in done.err


def test_quiet_leaves_only_the_result(fit: Command) -> None:
    done = fit("--out", "made", "-q", "--set", "rounds.count=0")
    assert done.err == ""
    assert "measured" not in done.out
    assert done.out.endswith("next: reliant evaluate made\n")


def test_a_dry_run_touches_nothing(fit: Command, tmp_path: Path) -> None:
    done = fit("--out", "made", "--dry-run")
    assert done.code == 0
    assert "images/s, measured" in done.out
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_in_json(fit: Command, tmp_path: Path) -> None:
    found = fit("--out", "made", "--dry-run", "--json", "-q").json
    assert (found["status"], found["rounds"], found["result"], found["passes"]) == ("planned", [], None, 0.0)
    assert found["cost"]["seconds"] > 0
    assert found["cost"]["images_per_second"] > 0
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_of_more_rounds_says_what_is_there_and_leaves_it(fit: Command, finished: Path) -> None:
    before = contents(finished)
    done = fit("--out", finished, "--dry-run", "--set", "rounds.count=2")
    assert done.code == 0
    assert f"done already  {TrainedRun(finished).budget.passes:.3g} passes" in done.out
    assert contents(finished) == before


def test_without_out_the_run_takes_the_name_of_the_source(fit: Command, photos: Path, tmp_path: Path) -> None:
    odd = tmp_path / "my photos (2024)"
    odd.symlink_to(photos)
    done = fit("--dry-run", "--json", "-q", source=odd)
    assert done.json["run"] == "runs/my-photos-2024"


def test_a_finished_run_is_left_alone(fit: Command, finished: Path) -> None:
    before = contents(finished)
    done = fit("--out", finished)
    assert done.code == 0
    assert done.out.splitlines()[0] == f"{finished} is finished; there is nothing to do"
    assert done.err == ""
    assert contents(finished) == before


def test_json_of_a_finished_run(fit: Command, finished: Path) -> None:
    found = fit("--out", finished, "--json").json
    assert found["status"] == "finished"
    assert found["cost"]["seconds"] == 0.0
    assert [row["round"] for row in found["rounds"]] == [0, 1]


def test_more_rounds_are_added(fit: Command) -> None:
    first = fit("--out", "made", "--json", "-q", "--set", "rounds.count=0").json
    second = fit("--out", "made", "--json", "-q").json
    assert second["rounds"][:1] == first["rounds"]
    assert [row["round"] for row in second["rounds"]] == [0, 1]


def test_a_seed_gives_another_run_and_the_same_seed_the_same(fit: Command) -> None:
    only = ("--set", "rounds.count=0", "--json", "-q")
    rounds = [fit("--out", f"made{turn}", "--seed", seed, *only).json["rounds"] for turn, seed in enumerate((1, 1, 2))]
    assert rounds[0] == rounds[1] != rounds[2]


def test_images_that_cannot_be_used_are_counted_and_said(fit: Command, photos: Path, tmp_path: Path) -> None:
    mixed = tmp_path / "mixed"
    for folder in ("a", "b", "c"):
        (mixed / folder).mkdir(parents=True)
        for file in sorted((photos / folder).iterdir()):
            (mixed / folder / file.name).symlink_to(file)
    for number in range(4):
        (mixed / "b" / f"broken{number}.png").write_bytes(b"")
    done = fit("--out", "made", "--dry-run", "--json", source=mixed)
    assert done.json["quarantined"] == 4
    assert done.err.splitlines()[0] == (
        "warning: 4 of 52 images are left out: b/broken0.png (not an image: it is empty), b/broken1.png (not an image: it is "
        "empty), b/broken2.png (not an image: it is empty) and 1 more"
    )


def test_fewer_images_than_a_batch_are_said_and_kept_in_the_events(fit: Command, tmp_path: Path) -> None:
    done = fit("--out", "made", "--set", "local.batch=64", "--set", "rounds.count=0")
    said = "48 images are fewer than a batch (local.batch = 64): the batch shrinks to 48"
    assert done.code == 0
    assert done.err.splitlines()[0] == f"warning: {said}"
    assert said in (tmp_path / "made" / "events.jsonl").read_text()


def test_a_run_can_begin_with_the_weights_of_another(fit: Command, finished: Path) -> None:
    done = fit("--out", "made", "--init", finished, "--json", "-q")
    assert done.code == 0
    assert done.json["cost"]["parts"]["initial"] == 0.0
    again = fit("--out", "made")
    assert again.code == 2
    assert again.err.startswith("reliant: made began with given weights (")
    assert again.err.endswith("…), asked for fresh weights; leave --init as it was, or use another --out\n")


def test_a_verdict_is_shown_with_its_reason_and_ends_well(fit: Command) -> None:
    done = fit("--out", "made", "--set", "health.spread=2")
    assert done.code == 0
    line = next(line for line in done.out.splitlines() if line.startswith("collapsed: "))
    assert "lower the rate (initial.rate, local.rate) or the weight decay, or use a larger batch" in line
    assert "made holds it, round 0 is its result" in done.out


def test_the_verdict_in_json(fit: Command) -> None:
    found = fit("--out", "made", "--json", "--set", "health.spread=2").json
    assert (found["status"], found["result"], found["verdict"]["state"]) == ("finished", 0, "collapsed")


def test_on_a_terminal_a_bar_is_drawn(fit: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    done = fit("--out", "made", "--json", "--set", "rounds.count=0")
    assert done.code == 0
    assert done.json["status"] == "finished"
    assert "━━━" in done.err
    assert "images/s" in done.err
