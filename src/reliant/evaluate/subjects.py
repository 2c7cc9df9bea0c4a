"""What is evaluated: the rounds of a run, a file of weights, or an untrained network.

RUN | WEIGHTS | random:NETWORK | nn.Module → a Subject whose networks a protocol asks for by round.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import config as configuration
from ..errors import UsageError, must
from ..trained import TrainedRun, read_weights

if TYPE_CHECKING:
    from torch import nn

    from ..learning.device import Device

# AlexNet is built for 224 px; the others take any size, and are tried at CIFAR-10's.
_SIZES = {"alexnet": 224}
_SIZE, _DIMENSION = 32, 128


@dataclass(frozen=True, kw_only=True)
class Subject:
    """``method`` as a Score names it; ``run`` where there is one; ``network`` where there is not."""

    method: str
    config: configuration.Config
    channels: str
    run: TrainedRun | None = None
    network: nn.Module | None = None
    preset: str = ""

    def rounds(self, asked: str) -> list[int]:
        """``all``, ``last`` or a number → round numbers, ascending."""
        if self.run is None:
            return [0]
        known = [row["round"] for row in self.run.rounds]
        must(bool(known), UsageError, f"{self.run.path} has no finished round yet; run the same 'reliant fit' command again")
        if asked == "all":
            return known
        if asked == "last":
            return [self.run.round]
        must(
            asked.isdecimal() and int(asked) in known, UsageError, f"--rounds takes all, last or one of {known}, got '{asked}'"
        )
        return [int(asked)]

    def network_of(self, round: int, learner: int | None = None, refined: bool = True) -> nn.Module:
        if self.run is not None:
            return self.run.network_of(round, learner, refined)
        assert self.network is not None
        return self.network

    def device(self) -> Device:
        from ..learning.device import Device

        return Device(self.config.machine) if self.run is None else self.run.device()

    def passes(self, round: int) -> float:
        """Passes spent up to a round."""
        if self.run is None:
            return 0.0
        names = [name for name in self.run.folder.stages() if name.startswith("rounds/") and int(name.split("/")[1]) <= round]
        return float(sum(self.run.folder.stored(name).budget.passes for name in names))


def open_subject(target: str | Path | TrainedRun | nn.Module, seed: int = 0) -> Subject:
    """What a user names or holds, or one UsageError that says what can be named."""
    if isinstance(target, TrainedRun):
        return _of_run(target)
    if not isinstance(target, str | Path):
        return _of_module(target)
    text = str(target)
    if text.startswith("random:"):
        return _of_random(text.removeprefix("random:"), seed)
    path = Path(text)
    if path.is_dir():
        return _of_run(TrainedRun(path))
    must(path.is_file(), UsageError, f"no run folder and no weights at {text}; give RUN, a .safetensors file or random:NETWORK")
    return _of_weights(path)


def _of_run(run: TrainedRun) -> Subject:
    config = run.config
    method = "control" if config.rounds.control else {"mined": "default"}.get(config.groups.members, config.groups.members)
    channels = str(run.manifest["source"].get("channels", "auto"))
    return Subject(method=method, config=config, channels=channels, run=run, preset=str(run.manifest["preset"]))


def _of_random(name: str, seed: int) -> Subject:
    from ..learning import network

    size = _SIZES.get(name, _SIZE)
    config = configuration.build({"network": {"name": name, "dimension": _DIMENSION, "size": size}, "data": {"size": size}})
    # Gradients are taken of the grey image, so the number of channels does not matter to the weights.
    return Subject(method="random", config=config, channels="auto", network=network.build(config.network, 3, seed))


def _of_weights(path: Path) -> Subject:
    from ..learning import network

    saved = read_weights(path)
    shape = saved.meta["network"]
    config = configuration.build({"network": shape, "data": {"size": shape["size"]}})
    return Subject(method="weights", config=config, channels=str(saved.meta["channels"]), network=network.load(saved))


def _of_module(module: Any) -> Subject:
    """Any network whose output is a map or a vector; its input is the colour image."""
    from torch import nn

    from ..learning.network import Aggregate, Network
    from ..learning.network import build as build_network

    must(
        isinstance(module, nn.Module), UsageError, f"evaluate takes a run, a path or an nn.Module, got {type(module).__name__}"
    )
    if isinstance(module, Network | Aggregate):
        size = module.size
        config = configuration.build({"network": {"size": size}, "data": {"size": size}})
        return Subject(method="module", config=config, channels="auto", network=module)
    table = {"network": {"dimension": _DIMENSION, "size": _SIZE, "input": "rgb"}, "data": {"size": _SIZE, "channels": "3"}}
    config = configuration.build(table)
    return Subject(method="module", config=config, channels="3", network=build_network(config.network, 3, 0, module))
