"""The errors that reliant raises on purpose.

::

    ReliantError                 exit code 1
    ├── UsageError               exit code 2: the command or a call was wrong
    │   └── ConfigError          a key or a value of the configuration
    ├── DataError                the images, embeddings or labels
    ├── StateError               a run folder: in use, foreign, damaged
    │   ├── RunInUseError
    │   └── DamagedError
    ├── StorageError             the disk: full, read-only
    ├── DeviceError              no such device, out of its memory
    ├── TrainingError            NaN or infinity in a loss
    └── MissingExtraError        an optional dependency is not installed

Every message says what was wrong, what is allowed, what came and what to do next, in one line.
"""

from __future__ import annotations


class ReliantError(Exception):
    """Base of every error that reliant raises on purpose."""

    exit_code = 1


class UsageError(ReliantError):
    """A command line or a Python call that cannot be meant."""

    exit_code = 2


class ConfigError(UsageError):
    """A configuration key that does not exist, or a value that it does not take."""


class DataError(ReliantError):
    """Images, embeddings or labels that cannot be used."""


class StateError(ReliantError):
    """A run folder that is not what the command needs."""


class RunInUseError(StateError):
    """Another process writes into this run folder."""


class DamagedError(StateError):
    """A file of a run folder is missing, truncated or altered."""


class StorageError(ReliantError):
    """The disk refused: full, read-only, no permission."""


class DeviceError(ReliantError):
    """The device is not there, or its memory is used up."""


class TrainingError(ReliantError):
    """A loss or a weight became NaN or infinite."""


class MissingExtraError(ReliantError):
    """An optional dependency is needed and not installed."""


def must(condition: bool, error: type[ReliantError], message: str) -> None:
    """Raise ``error(message)`` unless ``condition`` holds."""
    if not condition:
        raise error(message)
