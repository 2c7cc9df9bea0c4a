"""A run as its user sees it: ``reliant.fit`` makes one, ``reliant.load`` opens one.

A source of images → :class:`TrainedRun`, whose ``network`` is a plain ``nn.Module`` and whose ``embed`` gives features.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from . import config as configuration
from .errors import MissingExtraError, StateError, UsageError, must
from .records import Budget, Floats, Images, Quarantine, Relations, Snapshot, Verdict
from .standing import default_folder, notices, source_record, standing
from .store import Run, writing

if TYPE_CHECKING:
    from torch import nn

    from .learning.device import Device

Listener = Callable[[dict[str, Any]], None]


class TrainedRun:
    """A run folder, read-only: its rounds, its representation, its relations."""

    def __init__(self, path: str | Path, network: nn.Module | None = None) -> None:
        self.folder = Run.read(path)
        self.path = Path(path)
        self._trunk = network

    def __repr__(self) -> str:
        return f"TrainedRun({str(self.path)!r}, rounds={len(self.rounds)}, status={self.manifest['status']!r})"

    @property
    def config(self) -> configuration.Config:
        return self.folder.config

    @property
    def manifest(self) -> dict[str, Any]:
        return self.folder.manifest

    @property
    def rounds(self) -> list[dict[str, Any]]:
        """A row a round, from 0: groups, coverage, health, verdict."""
        return list(self.manifest["rounds"])

    @property
    def verdict(self) -> Verdict:
        return Verdict(**(self.manifest["verdict"] or {}))

    @property
    def round(self) -> int:
        """The round of the representation that is the run's result: the last one that is healthy."""
        result = self.manifest.get("result", self.rounds[-1]["round"] if self.rounds else None)
        if result is None:
            raise StateError(f"{self.path} has no finished round yet; run the same 'reliant fit' command again")
        return int(result)

    @property
    def budget(self) -> Budget:
        """What all its stages have cost so far."""
        return sum((self.folder.stored(name).budget for name in self.folder.stages()), Budget())

    def summary(self, round: int) -> dict[str, Any]:
        """What was mined from a round's φ, in numbers; without reading the relations themselves."""
        place = self.path / f"rounds/{round:02d}/relations/summary.json"
        return dict(json.loads(place.read_text(encoding="utf-8"))) if place.is_file() else {}

    def mean_size(self, round: int) -> float | None:
        """Of the groups that were mined from a round's φ; None where there are none."""
        sizes = {int(size): int(count) for size, count in self.summary(round).get("sizes", {}).items()}
        groups = sum(sizes.values())
        return sum(size * count for size, count in sizes.items()) / groups if groups else None

    @property
    def network(self) -> nn.Module:
        """φ, on the CPU in evaluation mode: images (B, C, size, size) in [0, 1] → features on the sphere."""
        return self.network_of(self.round)

    def network_of(self, round: int, learner: int | None = None, refined: bool = True) -> nn.Module:
        """φ of a round, or one of its learners φ_k before or after the refinement."""
        from .learning import network

        return network.load(self.weights(round, learner, refined), self._trunk).eval()

    def weights(self, round: int, learner: int | None = None, refined: bool = True) -> Snapshot:
        known = [row["round"] for row in self.rounds]
        must(round in known, UsageError, f"{self.path} has rounds {known}, got {round}")
        place = f"rounds/{round:02d}/representation"
        if learner is not None:
            stage = "refined" if refined and self.config.refine.passes else "local"
            place = f"rounds/{round:02d}/learners/{learner}/{stage}"
        value: Snapshot = self.folder.stored(place).value
        return value

    def learners(self, round: int) -> list[int]:
        """The numbers of the φ_k that a round trained; none in round 0 and in a control."""
        names = {name.split("/")[3] for name in self.folder.stages() if name.startswith(f"rounds/{round:02d}/learners/")}
        return sorted(int(name) for name in names)

    def relations(self, round: int | None = None) -> Relations:
        """Groups, subsets and triplets that were mined from a round's φ."""
        value: Relations = self.folder.stored(f"rounds/{self.round if round is None else round:02d}/relations").value
        return value

    def embed(self, source: Any, layer: str = "final", round: int | None = None) -> Floats:
        """Features (N, D) of images, in their order; ``source`` is anything that ``fit`` takes."""
        return self.embed_images(self.images(source)[0], layer, round)

    def embed_images(self, images: Images, layer: str = "final", round: int | None = None) -> Floats:
        check_layer(layer)
        phi = self.network_of(self.round if round is None else round)
        return self.layers_of(phi, images)[layer]

    def layers_of(self, phi: nn.Module, images: Images) -> dict[str, Floats]:
        """Both layers of some images."""
        from .learning import features
        from .learning.pixels import Pixels

        device = self.device()
        return features.extract_layers(phi.to(device.torch), Pixels(images.pixels, device.torch), device)

    def device(self) -> Device:
        from .learning.device import Device

        # A run of a GPU is looked at anywhere; one that was asked to stay on the CPU stays there.
        machine = self.config.machine
        return Device(machine if machine.device == "cpu" else machine.model_copy(update={"device": "auto"}))

    def images(self, source: Any, minimum: int = 1) -> tuple[Images, Quarantine]:
        """Decode a source in the way of this run, in its channels."""
        from .data import load_images, open_source

        channels = str(self.manifest["source"].get("channels", "auto"))
        data = self.config.data.model_copy(update={"channels": channels})
        return load_images(open_source(source), data, minimum=minimum)


def check_layer(layer: str) -> None:
    must(layer in ("final", "conv"), UsageError, f"layer is 'final' or 'conv', got '{layer}'")


def load(path: str | Path, network: nn.Module | None = None) -> TrainedRun:
    """Open a run folder; ``network`` is the module that was given to ``fit``, if one was."""
    return TrainedRun(path, network)


def fit(
    source: Any,
    out: str | Path | None = None,
    *,
    preset: str = "small",
    config: configuration.Config | None = None,
    sets: Mapping[str, Any] | Iterable[str] = (),
    seed: int | None = None,
    network: nn.Module | None = None,
    init: str | Path | TrainedRun | None = None,
    progress: Listener | None = None,
) -> TrainedRun:
    """Algorithm 1 on a source of images, into a run folder; the same call resumes.

    ``sets`` are ``{"stage.key": value}`` or ``["stage.key=value"]`` over the preset; ``config`` replaces both. ``network`` is
    any module (B, C, size, size) → (B, C') or (B, C', h, w), used as the trunk. ``init`` is a run or a weights file to
    start from. ``progress`` is called with every event.
    """
    needs_torch()
    from .data import load_images, open_source

    wanted = config or configured(preset, sets, seed)
    opened = open_source(source)
    place = Path(out) if out is not None else default_folder(opened)
    images, quarantine = load_images(opened, wanted.data, minimum=2)
    train(
        images,
        quarantine,
        wanted,
        place,
        spec=opened.spec or None,
        preset="" if config else preset,
        network=network,
        init=init,
        progress=progress,
    )
    return TrainedRun(place, network)


def train(
    images: Images,
    quarantine: Quarantine,
    config: configuration.Config,
    out: Path,
    *,
    spec: str | None = None,
    preset: str = "",
    network: nn.Module | None = None,
    init: str | Path | TrainedRun | Snapshot | None = None,
    progress: Listener | None = None,
) -> None:
    """Open or resume the run folder and run Algorithm 1 in it. ``spec`` is what opens the source again, if anything does."""
    from .algorithm import learn
    from .learning.device import Device
    from .learning.network import snapshot as weights_in
    from .stages.bench import Bench, digest_of

    machine = Device(config.machine).describe()
    start = None if init is None else weights_from(init)
    trunk = None if network is None else digest_of(weights_in(network).arrays)
    source = source_record(images, quarantine, spec, None if start is None else digest_of(start.arrays), trunk)
    standing(out, config, source)
    with Run.open(out, config=config, source=source, preset=preset, machine=machine, listener=progress) as run:
        for notice in notices(images, quarantine, config):
            run.event("notice", text=notice)
        _keep_ids(run, images)
        outcome = learn(Bench(run, images, run.config, trunk=network, init=start, watch=progress))
        run.update_manifest(result=outcome.round, verdict=vars(outcome.verdict))


def _keep_ids(run: Run, images: Images) -> None:
    """``ids.parquet``: the id of every row that features, groups and triplets speak of."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    place = run.path / "ids.parquet"
    if not place.exists():
        with writing(place) as temporary:
            pq.write_table(pa.table({"row": np.arange(len(images)), "id": pa.array(images.ids, pa.string())}), temporary)


def configured(preset: str, sets: Mapping[str, Any] | Iterable[str] = (), seed: int | None = None) -> configuration.Config:
    """A preset with keys over it."""
    table = configuration.preset_table(preset)
    if isinstance(sets, Mapping):
        for name, value in sets.items():
            stage, _, key = name.partition(".")
            table = configuration.merge(table, {stage: {key: value} if key else value})
    else:
        for text in sets:
            table = configuration.merge(table, configuration.parse_set(text))
    if seed is not None:
        table["seed"] = seed
    return configuration.build(table)


def weights_from(place: str | Path | TrainedRun | Snapshot) -> Snapshot:
    """Weights from a run's result, or from a ``.safetensors`` file with its ``meta.json`` beside it."""
    if isinstance(place, Snapshot):
        return place
    if isinstance(place, TrainedRun):
        return place.weights(place.round)
    path = Path(place)
    if path.is_dir():
        run = TrainedRun(path)
        return run.weights(run.round)
    return read_weights(path)


def read_weights(path: Path) -> Snapshot:
    """A stage's ``arrays.safetensors`` (or a copy under another name) and the ``meta.json`` that describes its network."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    beside = path.with_name("meta.json")
    must(path.is_file(), UsageError, f"no weights at {path}; give a run folder or a .safetensors file")
    must(beside.is_file(), UsageError, f"{beside} is missing; weights need the meta.json that was saved beside them")
    try:
        arrays: dict[str, np.ndarray[Any, Any]] = load_file(path)
        meta = json.loads(beside.read_text(encoding="utf-8"))
    except (SafetensorError, ValueError) as error:
        raise StateError(
            f"{path} holds no weights that can be read ({error}); give a run folder or a .safetensors file"
        ) from None
    must(
        "network" in meta and "channels" in meta,
        StateError,
        f"{beside} does not describe a network; give the one saved beside {path.name}",
    )
    return Snapshot(arrays=arrays, meta=meta)


def needs_torch() -> None:
    from importlib.util import find_spec

    try:
        found = find_spec("torch")
    except ImportError:
        found = None
    if found is None:
        raise MissingExtraError(
            "training needs torch, which is not installed; pip install 'reliant[train]' (see the README for CPU wheels)"
        )
