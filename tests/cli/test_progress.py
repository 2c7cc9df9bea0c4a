from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from reliant.cli import words
from reliant.cli.display import Display
from reliant.cli.progress import Progress, round_line
from reliant.cli.screen import Screen


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def progress(clock: Clock) -> Progress:
    """Of 100 images, 10 passes, 100 s; every stage that is there already had 3 passes."""
    return Progress(images=100, passes=10, seconds=100, learners=2, spent=lambda stage: 3.0, clock=clock)


def epoch(number: int, *, loss: float = 0.5, churn: float = 0.0, reassigned: bool = False) -> dict[str, Any]:
    return {"epoch": number, "terms": {"loss": loss}, "churn": churn, "reassigned": reassigned}


def test_passes_add_up_over_steps_and_stages(progress: Progress) -> None:
    assert progress.share == 0
    progress.observe({"kind": "stage-started", "stage": "rounds/00/initial"})
    progress.observe({"images": 50, "of": 400})
    assert progress.done == 0.5
    progress.observe({"images": 390, "of": 400})
    # The last batch did not fit, so the stage ended 10 images early: they are not still to come.
    progress.observe({"kind": "stage-finished", "stage": "rounds/00/initial", "passes": 3.9})
    assert progress.done == 4
    progress.observe({"kind": "stage-started", "stage": "rounds/00/features"})
    progress.observe({"kind": "stage-finished", "stage": "rounds/00/features", "passes": 1 / 3})
    assert progress.done == pytest.approx(4 + 1 / 3)
    progress.observe({"kind": "finished"})
    assert progress.share == 1


def test_a_stage_that_is_there_already_counts_as_done(progress: Progress) -> None:
    progress.observe({"kind": "stage-skipped", "stage": "rounds/00/initial"})
    assert progress.done == 3
    assert progress.left == pytest.approx(70)


def test_the_time_left_moves_from_the_estimate_to_what_is_seen(progress: Progress, clock: Clock) -> None:
    assert progress.left == pytest.approx(100)
    progress.observe({"kind": "stage-started", "stage": "rounds/00/initial"})
    clock.now = 20.0
    progress.observe({"images": 100, "of": 1000})
    # One pass took 20 s, where 10 s were estimated; the estimate weighs as much as a fiftieth of the run.
    assert progress.left == pytest.approx(9 * (20 + 0.2 * 10) / 1.2)


def test_what_a_checkpoint_brought_is_done_but_says_nothing_of_the_speed(progress: Progress, clock: Clock) -> None:
    progress.observe({"kind": "stage-started", "stage": "rounds/00/initial"})
    progress.observe({"kind": "checkpoint-restored", "stage": "rounds/00/initial", "passes": 0.0})
    clock.now = 1.0
    progress.observe({"images": 500, "of": 1000})
    clock.now = 3.0
    progress.observe({"images": 560, "of": 1000})
    assert progress.done == pytest.approx(5.6)
    assert progress.beside[0] == "20 images/s"
    assert progress.left == pytest.approx(4.4 * (3 + 0.2 * 10) / 0.8)


def test_the_line_names_the_stage_and_its_last_figures(progress: Progress, clock: Clock) -> None:
    progress.observe({"kind": "stage-started", "stage": "rounds/01/learners/1/local"})
    assert progress.text == "round 1 · learner 2 of 2 · local"
    assert not progress.trained
    clock.now = 0.1
    progress.observe({"images": 100, "of": 400, "epoch": epoch(0, loss=1.23456, churn=0.124, reassigned=True)})
    assert progress.text == "round 1 · learner 2 of 2 · local · epoch 1 · loss 1.235 · churn 12 %"
    assert progress.beside[0] == "1,000 images/s"
    progress.observe({"images": 200, "of": 400, "epoch": epoch(1, loss=0.5)})
    # An epoch without re-assignment has no churn of its own.
    assert progress.text == "round 1 · learner 2 of 2 · local · epoch 2 · loss 0.5 · churn 12 %"
    assert progress.trained
    progress.observe({"kind": "stage-started", "stage": "rounds/01/features"})
    assert progress.text == "round 1 · features"


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(st.booleans(), st.floats(0, 5), st.integers(1, 4)), max_size=8))
def test_what_is_done_never_shrinks_nor_passes_the_whole(stages: list[tuple[bool, float, int]]) -> None:
    clock = Clock()
    progress = Progress(images=100, passes=10, seconds=100, learners=2, spent=lambda stage: 2.0, clock=clock)
    seen = [0.0]
    for number, (there, passes, steps) in enumerate(stages):
        name = f"rounds/{number:02d}/initial"
        events: list[dict[str, Any]] = [{"kind": "stage-skipped", "stage": name}]
        if not there:
            of = 100 * passes
            events = [{"kind": "stage-started", "stage": name}]
            events += [{"images": of * (step + 1) / steps, "of": of} for step in range(steps)]
            events += [{"kind": "stage-finished", "stage": name, "passes": passes}]
        for event in events:
            clock.now += 0.5
            progress.observe(event)
            seen.append(progress.done)
            assert progress.left >= 0
    assert seen == sorted(seen)
    assert seen[-1] <= 10


def test_the_line_of_a_round() -> None:
    row = {"round": 2, "groups": 7199, "coverage": 0.98437, "verdict": {"state": "ok", "reason": "", "advice": ""}}
    assert round_line(row) == "round 2 · 7,199 groups · coverage 98.4 % · ok"
    row["verdict"] = {"state": "flat", "reason": "the loss did not fall", "advice": "raise the rate"}
    assert round_line(row) == "round 2 · 7,199 groups · coverage 98.4 % · flat: the loss did not fall"


# ---- the display


def screen_of(file: io.StringIO, *, terminal: bool, quiet: bool = False) -> Screen:
    screen = Screen(quiet=quiet)
    kind = {"_environ": {"TERM": "xterm"}} if terminal else {}
    screen.err = Console(file=file, force_terminal=terminal, width=100, markup=False, highlight=False, **kind)
    return screen


def test_elsewhere_a_line_comes_every_ten_seconds_or_when_it_is_worth_it(clock: Clock) -> None:
    file = io.StringIO()
    with Display(screen_of(file, terminal=False), clock) as display:
        for second in range(25):
            clock.now = float(second)
            display.update("working", second / 25, [f"{25 - second} s left"])
        display.update("done", 1.0, worth_a_line=True)
        display.say("a [line] that stays")
    assert file.getvalue().splitlines() == [
        " 40% · working · 15 s left",
        " 80% · working · 5 s left",
        "100% · done",
        "a [line] that stays",
    ]


def test_on_a_terminal_a_bar_is_drawn_and_taken_away(clock: Clock) -> None:
    file = io.StringIO()
    with Display(screen_of(file, terminal=True), clock) as display:
        display.update("working", 0.5, ["3 s left"])
        display.say("a line that stays")
    drawn = file.getvalue()
    assert "━━━" in drawn
    assert "50%" in drawn
    assert "3 s left" in drawn
    assert drawn.count("a line that stays") == 1
    assert drawn.endswith("\x1b[2K")


@pytest.mark.parametrize("terminal", [True, False])
def test_quiet_shows_nothing(clock: Clock, terminal: bool) -> None:
    file = io.StringIO()
    with Display(screen_of(file, terminal=terminal, quiet=True), clock) as display:
        display.update("working", 0.5, worth_a_line=True)
        display.say("a line")
    assert file.getvalue() == ""


# ---- words


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min 00 s"),
        (200, "3 min 20 s"),
        (7500, "2 h 05 min"),
        (172800 + 4 * 3600, "2 d 4 h"),
        (-1, "0 s"),
    ],
)
def test_durations(seconds: float, said: str) -> None:
    assert words.duration(seconds) == said


@pytest.mark.parametrize(
    ("count", "said"), [(0, "0 bytes"), (999, "999 bytes"), (1500, "1.5 kB"), (2.5e9, "2.5 GB"), (3e12, "3.0 TB")]
)
def test_sizes(count: float, said: str) -> None:
    assert words.size(count) == said


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("rounds/00/initial", "initialisation"),
        ("rounds/01/learners/0/refined", "round 1 · learner 1 of 5 · refinement"),
        ("rounds/02/control/local", "round 2 · control · local"),
        ("rounds/02/ranking", "round 2 · triplets"),
        ("rounds/02/view-1/neighbours", "round 2 · view 1 · neighbours"),
        ("rounds/02/other-layer/features", "round 2 · other layer · features"),
    ],
)
def test_stages_in_words(place: str, said: str) -> None:
    assert words.stage(place, 5) == said
