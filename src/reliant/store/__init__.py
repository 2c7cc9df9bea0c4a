"""The run folder: stages by digest, checkpoints, one writer; and the files of relations."""

from .atomic import publishing, write_bytes, write_json, writing
from .checkpoint import CheckpointSlot
from .codec import Value
from .digest import digest, file_digest
from .events import read_events
from .relations import read_relations, write_relations
from .run import Run
from .stage import Stored

__all__ = [
    "CheckpointSlot",
    "Run",
    "Stored",
    "Value",
    "digest",
    "file_digest",
    "publishing",
    "read_events",
    "read_relations",
    "write_bytes",
    "write_json",
    "write_relations",
    "writing",
]
