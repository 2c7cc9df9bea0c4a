"""``reliant fit``: Algorithm 1 on a source of images."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import options
from .screen import Screen

if TYPE_CHECKING:
    from rich.table import Table

    from ..config import Config
    from ..cost import Cost
    from ..data import Source
    from ..records import Images, Quarantine, Snapshot
    from ..standing import Standing
    from ..trained import Listener


def fit(
    source: options.Source,
    out: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="The run folder; runs/NAME-OF-SOURCE where not given.", show_default=False),
    ] = None,
    preset: Annotated[str, typer.Option(metavar="P", help="Where the keys come from; see 'reliant presets'.")] = "small",
    config: Annotated[
        list[Path] | None, typer.Option(metavar="F.toml", help="Keys over the preset; repeatable.", show_default=False)
    ] = None,
    sets: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="STAGE.KEY=VALUE", help="One key over all files; repeatable.", show_default=False),
    ] = None,
    seed: options.Seed = None,
    init: Annotated[
        Path | None,
        typer.Option(metavar="WEIGHTS_OR_RUN", help="Begin with these weights, not an initialisation.", show_default=False),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what it will cost, then stop.", show_default=False)] = False,
    device: Annotated[
        str | None, typer.Option(metavar="auto|cpu|cuda", help="Where to compute; key machine.device.", show_default=False)
    ] = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Learn a representation from images without labels.

    First it says what it will cost, then it runs (Algorithm 1 of the paper).
    The same command goes on where it was stopped.
    On a finished run it changes nothing, or adds rounds: --set rounds.count=N.

    \b
    Examples:
      reliant fit photos/
      reliant fit fashion-mnist-sample --preset demo --out runs/demo
      reliant fit photos/ --set rounds.count=3 --set local.batch=128 --dry-run
    """
    from .. import config as configuration
    from ..standing import default_folder
    from ..trained import needs_torch

    screen = Screen(json=json, quiet=quiet, verbose=verbose)
    keys = [*(sets or []), *([] if device is None else [f"machine.device={device}"])]
    wanted = configuration.load(preset, config or [], keys, seed)
    needs_torch()

    from ..data import open_source

    opened = open_source(source)
    Fit(screen, wanted, preset, out or default_folder(opened), opened.spec or None, init).run(opened, dry_run)


class Fit:
    """One ``fit``: what was asked for, and the screen."""

    def __init__(self, screen: Screen, config: Config, preset: str, out: Path, spec: str | None, init: Path | None) -> None:
        from ..learning.device import Device
        from ..store.manifest import is_run
        from ..trained import weights_from

        # What is wrong with them is said before images are decoded.
        is_run(out)
        Device(config.machine)
        self.screen, self.config, self.preset, self.out, self.spec = screen, config, preset, out, spec
        self.start: Snapshot | None = None if init is None else weights_from(init)

    def run(self, opened: Source, dry_run: bool) -> None:
        from ..cost import estimate, nothing
        from ..standing import notices
        from ..trained import TrainedRun
        from .tables import cost_table

        images, quarantine = self._decode(opened)
        standing = self._standing(images, quarantine)
        if standing == "finished":
            self.screen.show(f"{self.out} is finished; there is nothing to do")
            self._train(images, quarantine)  # skips every stage, but looks at its files
            self._report(nothing(), quarantine)
            return
        for notice in notices(images, quarantine, self.config):
            self.screen.warn(notice)
        cost = estimate(self.config, images, started=self.start is not None)
        done = TrainedRun(self.out).budget.passes if standing == "unfinished" else 0.0
        tables = [self._asked(images), cost_table(cost, done)]
        if dry_run:
            self.screen.result({**self._base(cost, quarantine), "passes": round(done, 2)}, *tables)
            return
        self.screen.show(*tables)
        self._watch(images, quarantine, cost)
        self._report(cost, quarantine)

    def _decode(self, opened: Source) -> tuple[Images, Quarantine]:
        from ..data import load_images
        from .display import Display

        with Display(self.screen) as display:

            def show(done: int, total: int) -> None:
                display.update(f"decoding · {done:,} of {total:,} images", done / total)

            return load_images(opened, self.config.data, show)

    def _standing(self, images: Images, quarantine: Quarantine) -> Standing:
        from ..stages.bench import digest_of
        from ..standing import source_record, standing

        start = None if self.start is None else digest_of(self.start.arrays)
        return standing(self.out, self.config, source_record(images, quarantine, self.spec, start))

    def _asked(self, images: Images) -> Table:
        from .tables import facts

        size, channels = images.pixels.shape[1], images.pixels.shape[3]
        kind = "grey" if channels == 1 else "colour"
        what = f"{len(images):,} images of {images.name}, {size} × {size}, {kind}"
        return facts([("source", what), ("run", f"{self.out}, preset {self.preset}")])

    def _watch(self, images: Images, quarantine: Quarantine, cost: Cost) -> None:
        from ..store import Run
        from .display import Display
        from .progress import Progress, shown

        learners = self.config.subsets.count if self.config.subsets.mode == "divided" else 1
        progress = Progress(
            images=len(images),
            passes=cost.passes,
            seconds=cost.seconds,
            learners=learners,
            spent=lambda stage: Run.read(self.out).stored(stage).budget.passes,
        )
        with Display(self.screen) as display:
            self._train(images, quarantine, shown(progress, display))

    def _train(self, images: Images, quarantine: Quarantine, listener: Listener | None = None) -> None:
        from ..trained import train
        from .signals import left_to_the_run

        with left_to_the_run():
            train(
                images,
                quarantine,
                self.config,
                self.out,
                spec=self.spec,
                preset=self.preset,
                init=self.start,
                progress=listener,
            )

    def _report(self, cost: Cost, quarantine: Quarantine) -> None:
        from ..trained import TrainedRun
        from .tables import rounds_of, rounds_table

        run = TrainedRun(self.out)
        rounds, verdict, budget = rounds_of(run), run.verdict, run.budget
        result = {
            "status": run.manifest["status"],
            "rounds": rounds,
            "result": run.round,
            "verdict": vars(verdict),
            "passes": round(budget.passes, 2),
            "seconds": round(budget.seconds, 1),
        }
        said = [] if verdict.healthy else [f"{verdict.state}: {verdict.reason}; {verdict.advice}"]
        said += [
            f"{self.out} holds it, round {run.round} is its result",
            f"next: reliant evaluate {shlex.quote(str(self.out))}",
        ]
        self.screen.result({**self._base(cost, quarantine), **result}, rounds_table(rounds), *said)

    def _base(self, cost: Cost, quarantine: Quarantine) -> dict[str, Any]:
        """The JSON object of a run of which nothing is there yet."""
        from ..cost import readable

        return {
            "run": str(self.out),
            "status": "planned",
            "rounds": [],
            "result": None,
            "verdict": None,
            "cost": readable(cost),
            "passes": 0.0,
            "seconds": 0.0,
            "quarantined": len(quarantine),
        }
