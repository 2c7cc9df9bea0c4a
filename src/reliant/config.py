"""One frozen class a stage. A default is the paper's value, or carries the word *ours* where the paper gives none.

A configuration is TOML with a table a stage. It is strict in both directions: an unknown key, table or value is a
:class:`~reliant.errors.ConfigError` that names the nearest right one. Presets lie in ``presets/``.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from .errors import ConfigError

Positive = Annotated[int, Field(gt=0)]
Natural = Annotated[int, Field(ge=0)]
PositiveReal = Annotated[float, Field(gt=0)]
NaturalReal = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(gt=0, le=1)]


class _Stage(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, allow_inf_nan=False)


class Data(_Stage):
    """How an image file becomes pixels. Part of the cache's digest."""

    size: Positive = 256  # NAT's: the shorter side is resized to it, then the square centre is kept
    channels: Literal["auto", "1", "3"] = "auto"  # auto (ours): 1 where every image is grey
    max_bad: Annotated[float, Field(ge=0, le=1)] = 0.5  # ours: a larger share of bad files stops the run
    max_pixels: Positive = 64_000_000  # ours: larger images are quarantined from their header alone
    workers: Natural = 2  # ours: decoding threads; no result depends on it


class Network(_Stage):
    """The CNN and its input. Sec. 4.1: AlexNet with batch norm on gradient images, D = 2048."""

    name: str = "alexnet"
    dimension: Positive = 2048
    input: Literal["sobel", "rgb"] = "sobel"
    head: Literal["linear", "mlp"] = "linear"  # mlp (ours): a hidden layer between trunk and φ
    size: Positive = 224  # the side of the crop that the network sees


class Augment(_Stage):
    """What happens to an image before the network sees it. The paper states none; NAT crops and flips, and so do we."""

    recipe: Literal["none", "nat", "resized-crop", "resized-crop-contrast", "resized-crop-colour"] = "nat"
    flip: bool = True
    scale: Share = 0.25  # ours: the smallest area of a resized crop


class Optimiser(_Stage):
    """Sec. 4.1: SGD with an initial rate of 0.01 and momentum 0.9. Batch, decay and schedule are not stated there."""

    rate: PositiveReal = 0.01
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    nesterov: bool = False
    weight_decay: NaturalReal = 0.0  # NAT's
    batch: Positive = 256  # NAT's
    schedule: Literal["constant", "cosine", "one-cycle"] = "cosine"  # ours
    warmup: Annotated[float, Field(ge=0, lt=1)] = 0.0  # ours: one-cycle's share of the rising part
    reduction: Literal["sum", "mean"] = "sum"  # Eq. 2 sums over the images; the mean divides the rate by the batch


class Initial(Optimiser):
    """Sec. 3.5, initialisation: Eq. 2 on the whole set with a target an image."""

    passes: PositiveReal = 100.0  # NAT's epochs; the paper states none
    loss: Literal["squared", "plain", "softmax"] = "squared"  # NAT's squared L2; the paper's d is plain L2
    temperature: PositiveReal = 0.1  # ours, of the softmax over the batch's targets
    reassign_every: Natural = 3  # epochs; 0 never. The batch is the block of one exact assignment, as NAT's


class Layers(_Stage):
    """Which features are mined. The paper does not say; the final one is our reading."""

    layer: Literal["final", "conv"] = "final"
    learners: Literal["chosen", "all"] = "chosen"  # all (ours): the features of the K learners side by side
    projection: Natural = 0  # ours: wider features are projected at random to so many values; 0: as they are
    views: Natural = 0  # ours: random views in which neighbours are sought again, as evidence
    agreement: bool = False  # ours: the neighbours in the other layer as evidence


class Neighbourhood(_Stage):
    """The list of nearest images of every image."""

    k: Positive = 64  # ours: ≥ the group cap and the shared-neighbour lists
    rerank: Literal["none", "shared"] = "none"  # shared (ours): order by the overlap of the neighbour lists


class Chance(_Stage):
    """Sec. 3.3: how compact a group is by chance."""

    percentile: Annotated[float, Field(gt=0, le=100)] = 3.0
    groups: Positive = 10_000  # ours: random groups of every size
    null: Literal["random", "pairs", "local"] = "random"  # pairs, local: ours, stricter
    pool: Positive = 1024  # ours: images of a seed's wider neighbourhood, of the local null


class Grouping(_Stage):
    """Sec. 3.3: maximal compact groups."""

    minimum: Annotated[int, Field(ge=2)] = 2  # ours: smaller groups are no groups
    cap: Annotated[int, Field(ge=2)] = 16  # ours: with the paper's rule alone a group never stops on real features
    neighbours_of: Literal["seed", "group"] = "seed"
    stop: Literal["first", "last"] = "first"  # "as long as" against "as large as possible"
    members: Literal["mined", "singletons", "shuffled"] = "mined"  # the control arms


class Partition(_Stage):
    """Sec. 3.4, Eq. 1."""

    count: Positive = 5  # K
    mode: Literal["divided", "whole"] = "divided"  # whole: the ablation without decomposition
    fraction: Share = 0.5  # ours: |X̄_k| as a share of the largest that fits
    overlap: NaturalReal = 1.0  # ours: λ1; the paper's comes from a cross-validation that it does not report
    coverage: NaturalReal = 1.0  # ours: λ2; likewise
    near: Natural = 8  # ours: nearest groups that may not share a subset, per group
    order: Literal["random", "reliable"] = "random"  # ours: which groups are placed first; Eq. 1 prefers none


class Spheres(_Stage):
    """Sec. 3.5.1: hubs on the sphere, Gaussian points."""

    spread: NaturalReal | Literal["measured"] = "measured"  # σ√D; measured: from the distances within groups (Fig. 5b)
    shrink: PositiveReal = 0.5  # ours: matching the present distances exactly would exert no pull
    projected: bool = True  # points back to the sphere, as NAT
    hubs: Literal["fresh", "inherited"] = "fresh"  # inherited (ours): the mean of the members' present targets


class Local(Optimiser):
    """Sec. 3.5.2, Eq. 2 on one subset."""

    passes: PositiveReal = 40.0  # ours: a round's, over all K learners; the paper states none
    start: Literal["warm", "cold"] = "warm"  # from φ, or from scratch
    unit: Literal["image", "group"] = "image"  # what is re-assigned: Eq. 2 to the letter, or groups to hubs (ours)
    view: Literal["augmented", "clean"] = "augmented"  # features of the assignment: train mode as NAT, or eval on the image
    loss: Literal["squared", "plain", "softmax"] = "squared"
    temperature: PositiveReal = 0.1
    reassign_every: Natural = 3
    block: Positive = 256  # ours, with view = "clean"; from augmented views the batch is the block, as NAT's
    uncovered: Literal["leave", "singletons"] = "leave"  # singletons (ours): images in no group take part alone


class Transfer(_Stage):
    """Sec. 3.5.3, Eq. 3: triplets by transitivity."""

    links: Literal["group", "shared", "both"] = "group"
    dissimilar: Literal["any", "far", "near"] = "any"
    margin: NaturalReal = 0.2
    count: Positive = 50_000  # ours: at most so many triplets a learner
    weight: NaturalReal = 1.0  # ours: of L_transfer beside L_local
    squared: bool = False  # d is the L2 metric


class Refine(Optimiser):
    """Sec. 3.5.3, Eq. 4: local learning on fresh targets together with the triplets."""

    passes: NaturalReal = 20.0  # ours: a round's, over all K learners; 0: no refinement


class Rounds(_Stage):
    """Algorithm 1."""

    count: Natural = 4  # T
    control: bool = False  # spend the same passes on the initialisation's objective
    objective: Literal["local", "triplets"] = "local"  # triplets: the ablation "Triplets only"
    choice: Literal["random", "best", "average", "concatenate"] = "random"  # φ_k*, or an aggregation


class Health(_Stage):
    """When a stage is said to have failed, without labels. All ours."""

    rank: PositiveReal = 0.02  # effective rank / D below which features have collapsed
    spread: PositiveReal = 0.02  # mean distance of random pairs / √2 below which they have


class Store(_Stage):
    """The run folder."""

    checkpoint_seconds: NaturalReal = 60.0
    features: Literal["last", "all"] = "last"  # what of the mined features is kept when a round is done


class Machine(_Stage):
    """Where it runs. In no digest: the result is the same up to rounding, and to the bit at equal threads."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    threads: Natural = 0  # 0: as many as there are cores
    precision: Literal["auto", "bf16", "fp32"] = "auto"


class Config(_Stage):
    """Everything that a run depends on."""

    seed: int = 0
    data: Data = Data()
    network: Network = Network()
    augment: Augment = Augment()
    initial: Initial = Initial()
    features: Layers = Layers()
    neighbours: Neighbourhood = Neighbourhood()
    chance: Chance = Chance()
    groups: Grouping = Grouping()
    subsets: Partition = Partition()
    targets: Spheres = Spheres()
    local: Local = Local()
    triplets: Transfer = Transfer()
    refine: Refine = Refine()
    rounds: Rounds = Rounds()
    health: Health = Health()
    store: Store = Store()
    machine: Machine = Machine()

    @model_validator(mode="after")
    def _consistent(self) -> Config:
        if self.local.unit == "group" and self.local.view == "augmented":
            raise ValueError("local.unit = 'group' needs local.view = 'clean': a group is assigned by the mean of its images")
        for name, stage in (("initial", self.initial), ("local", self.local), ("refine", self.refine)):
            if stage.nesterov and not stage.momentum:
                raise ValueError(
                    f"{name}.nesterov = true needs momentum; set {name}.momentum above 0 or {name}.nesterov = false"
                )
        if self.neighbours.k < self.groups.cap - 1:
            raise ValueError(
                f"neighbours.k = {self.neighbours.k} is too small for groups.cap = {self.groups.cap}; "
                f"set neighbours.k to at least {self.groups.cap - 1}"
            )
        if self.subsets.mode == "whole" and self.rounds.objective == "triplets":
            raise ValueError("rounds.objective = 'triplets' needs subsets.mode = 'divided': dissimilarity comes from subsets")
        return self


# Keys that decide how or how long a run is made but not what a stage computes.
OUTSIDE_DIGEST = ("machine", "store", "rounds.count", "data.workers")


def load(preset: str = "small", files: Iterable[Path] = (), sets: Iterable[str] = (), seed: int | None = None) -> Config:
    """A preset, then TOML files, then ``stage.key=value`` texts, each over the one before."""
    table = preset_table(preset)
    for file in files:
        table = merge(table, read_toml(Path(file)))
    for text in sets:
        table = merge(table, parse_set(text))
    if seed is not None:
        table = merge(table, {"seed": seed})
    return build(table)


def build(table: Mapping[str, Any]) -> Config:
    """A checked configuration from nested tables."""
    check_keys(table)
    try:
        return Config.model_validate(dict(table))
    except ValidationError as error:
        raise ConfigError(_explain(error)) from None


def check_keys(table: Mapping[str, Any]) -> None:
    """Every table and key exists, or a ConfigError names the nearest one that does."""
    fields = Config.model_fields
    for stage, value in table.items():
        if stage not in fields:
            raise ConfigError(_unknown("stage", stage, stage, fields))
        annotation = fields[stage].annotation
        if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
            continue
        if not isinstance(value, Mapping):
            raise ConfigError(f"{stage} is a table of keys ({', '.join(annotation.model_fields)}), got {value!r}")
        for key in value:
            if key not in annotation.model_fields:
                raise ConfigError(_unknown("key", f"{stage}.{key}", key, annotation.model_fields, f"{stage}."))


def _unknown(kind: str, name: str, key: str, allowed: Iterable[str], prefix: str = "") -> str:
    allowed = list(allowed)
    near = difflib.get_close_matches(key, allowed, n=1, cutoff=0.5)
    hint = f"did you mean '{prefix}{near[0]}'?" if near else f"allowed: {', '.join(prefix + name for name in allowed)}"
    return f"unknown {kind} '{name}'; {hint}"


def _explain(error: ValidationError) -> str:
    parts = []
    for one in error.errors():
        where = ".".join(str(part) for part in one["loc"] if part not in ("constrained-float",) and "literal" not in str(part))
        message = one["msg"].removeprefix("Value error, ")
        got = "" if one["type"] == "value_error" else f", got {one['input']!r}"
        parts.append(f"{where}: {message}{got}" if where else message)
    return "; ".join(parts)


def parse_set(text: str) -> dict[str, Any]:
    """``stage.key=value`` as a table; the value is read as TOML, or as a plain string."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise ConfigError(f"--set takes stage.key=value (for example local.passes=20), got '{text}'")
    try:
        parsed = tomllib.loads(f"value = {value.strip()}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value.strip()
    table: Any = parsed
    for part in reversed(name.strip().split(".")):
        table = {part: table}
    return dict(table)


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """``over`` on top of ``base``, table by table."""
    merged = dict(base)
    for key, value in over.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = merge(merged[key], value) if both else value
    return merged


def read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"no configuration file {path}") from None
    except OSError as error:
        raise ConfigError(f"configuration file {path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from None


def to_toml(config: Config) -> str:
    """The whole configuration, every key, in the order of the stages; :func:`build` reads it back to an equal one."""
    import tomli_w

    return tomli_w.dumps(config.model_dump())


def flat(config: Config) -> dict[str, Any]:
    """``stage.key`` → value, without what is outside every digest."""
    rows: dict[str, Any] = {}
    for stage, value in config.model_dump().items():
        for key, one in value.items() if isinstance(value, dict) else [("", value)]:
            name = f"{stage}.{key}" if key else stage
            if stage not in OUTSIDE_DIGEST and name not in OUTSIDE_DIGEST:
                rows[name] = one
    return rows


def preset_names() -> list[str]:
    folder = resources.files("reliant") / "presets"
    return sorted(item.name.removesuffix(".toml") for item in folder.iterdir() if item.name.endswith(".toml"))


def preset_table(name: str) -> dict[str, Any]:
    """The keys that a preset changes."""
    table = _read_preset(name)
    table.pop("about", None)
    return table


def preset_about(name: str) -> dict[str, str]:
    """What a preset says of itself: title, command, hardware, cost, score."""
    return dict(_read_preset(name).get("about", {}))


def _read_preset(name: str) -> dict[str, Any]:
    names = preset_names()
    if name not in names:
        near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
        hint = f"did you mean '{near[0]}'?" if near else f"allowed: {', '.join(names)}"
        raise ConfigError(f"unknown preset '{name}'; {hint}")
    return tomllib.loads((resources.files("reliant") / "presets" / f"{name}.toml").read_text(encoding="utf-8"))
