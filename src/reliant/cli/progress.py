"""Where a run stands: its events and steps → the passes that are done, the present stage, its figures, the time left."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import words

if TYPE_CHECKING:
    from .display import Display

# Until this share of a run has been worked on, its time left leans on what was estimated.
_TRUST = 0.02


class Progress:
    """Told of everything that happens in a run. ``passes`` and ``seconds``: what the whole of it was estimated at.

    ``spent``: the passes of a stage that is there already.
    """

    def __init__(
        self,
        *,
        images: int,
        passes: float,
        seconds: float,
        learners: int,
        spent: Callable[[str], float] = lambda stage: 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.images, self.passes, self.seconds, self.learners = images, passes, seconds, learners
        self._spent, self._clock = spent, clock
        self._begun: float | None = None
        self._stages, self._found = 0.0, 0.0  # passes of stages that have ended; of those, passes that were there already
        self._stage, self._present, self._of = "", 0.0, 0.0
        self._first: float | None = None  # images of the present stage that a checkpoint had brought
        self._restored = False
        self._stage_begun = 0.0
        self._figures: dict[str, float] = {}

    def observe(self, event: dict[str, Any]) -> None:
        match event.get("kind"):
            case None:
                self._step(event)
            case "stage-started":
                self._start(event["stage"])
            case "checkpoint-restored":
                self._restored = True
            case "stage-skipped":
                passes = self._spent(event["stage"])
                self._stages, self._found = self._stages + passes, self._found + passes
            case "stage-finished":
                # A stage ends with the last whole batch that fits; what it leaves of its budget is done with too.
                self._stages += max(float(event["passes"]), self._of / self.images, self._present)
                self._present = self._of = 0.0
            case "finished":
                self._stages, self._present = self.passes, 0.0

    def _start(self, stage: str) -> None:
        now = self._clock()
        self._begun = now if self._begun is None else self._begun
        self._stage, self._present, self._of, self._first, self._restored = stage, 0.0, 0.0, None, False
        self._stage_begun, self._figures = now, {}

    def _step(self, step: dict[str, Any]) -> None:
        done, self._of = float(step["images"]), float(step["of"])
        if self._first is None:
            self._first = done if self._restored else 0.0
            self._found += self._first / self.images
        self._present = done / self.images
        elapsed = self._clock() - self._stage_begun
        if elapsed > 0 and done > self._first:
            self._figures["speed"] = (done - self._first) / elapsed
        if "epoch" in step:
            epoch = step["epoch"]
            self._figures |= {"epoch": epoch["epoch"] + 1, "loss": epoch["terms"].get("loss", float("nan"))}
            if epoch["reassigned"]:
                self._figures["churn"] = epoch["churn"]

    @property
    def done(self) -> float:
        """Passes, those of stages that were skipped included."""
        return min(self.passes, self._stages + self._present)

    @property
    def share(self) -> float:
        return self.done / self.passes if self.passes else 1.0

    @property
    def left(self) -> float:
        """Seconds: the estimate at first, then more and more the speed of this very run."""
        if not self.passes:
            return 0.0
        elapsed = 0.0 if self._begun is None else self._clock() - self._begun
        worked = max(0.0, self.done - self._found)
        trust = _TRUST * self.passes
        per_pass = (elapsed + trust * self.seconds / self.passes) / (worked + trust)
        return (self.passes - self.done) * per_pass

    @property
    def trained(self) -> bool:
        """Whether the present stage, or the one that has just ended, is one of training."""
        return "epoch" in self._figures

    @property
    def text(self) -> str:
        """``round 1 · learner 2 of 5 · local · epoch 3 · loss 0.532 · churn 12 %``."""
        figures = self._figures
        said = [words.stage(self._stage, self.learners)] if self._stage else []
        if "epoch" in figures:
            said.append(f"epoch {figures['epoch']:.0f} · loss {figures['loss']:.4g}")
        if "churn" in figures:
            said.append(f"churn {words.percent(figures['churn'], 0)}")
        return " · ".join(said)

    @property
    def beside(self) -> list[str]:
        """``3,200 images/s``, ``2 min 10 s left``."""
        speed = [f"{self._figures['speed']:,.0f} images/s"] if "speed" in self._figures else []
        return [*speed, f"{words.duration(self.left)} left"]


def shown(progress: Progress, display: Display) -> Callable[[dict[str, Any]], None]:
    """A listener that draws what it is told."""

    def listen(event: dict[str, Any]) -> None:
        progress.observe(event)
        kind = event.get("kind")
        if kind == "round":
            display.say(round_line(event))
        ended = kind == "stage-finished" and progress.trained
        display.update(progress.text, progress.share, progress.beside, worth_a_line=ended)

    return listen


def round_line(row: dict[str, Any]) -> str:
    verdict = row["verdict"]
    said = [
        f"round {row['round']}",
        f"{row['groups']:,} groups",
        f"coverage {words.percent(row['coverage'])}",
        verdict["state"],
    ]
    return " · ".join(said) + (f": {verdict['reason']}" if verdict["reason"] else "")
