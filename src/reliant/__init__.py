"""reliant: learn image representations without labels, from the image relations that can be relied on."""

from __future__ import annotations

from importlib.metadata import version as _version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .config import Config
    from .errors import ConfigError, DataError, ReliantError, StateError, UsageError
    from .evaluate.run import evaluate
    from .records import Features, Groups, Relations, Subsets, Triplets
    from .trained import TrainedRun, fit, load

__version__ = _version("reliant")

# Where each public name lives; imported when it is first used, so that `import reliant` costs nothing.
_HOMES = {
    "Config": "config",
    "ConfigError": "errors",
    "DataError": "errors",
    "Features": "records",
    "Groups": "records",
    "Relations": "records",
    "ReliantError": "errors",
    "StateError": "errors",
    "Subsets": "records",
    "TrainedRun": "trained",
    "Triplets": "records",
    "UsageError": "errors",
    "evaluate": "evaluate.run",
    "fit": "trained",
    "load": "trained",
}

__all__ = [
    "Config",
    "ConfigError",
    "DataError",
    "Features",
    "Groups",
    "Relations",
    "ReliantError",
    "StateError",
    "Subsets",
    "TrainedRun",
    "Triplets",
    "UsageError",
    "evaluate",
    "fit",
    "load",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'reliant' has no attribute {name!r}")
    from importlib import import_module

    found = getattr(import_module(f"reliant.{_HOMES[name]}"), name)
    # ``evaluate`` is the name of a package too, which that import has bound here; it answers to the call itself.
    return globals().get(name, found)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
