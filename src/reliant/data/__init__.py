"""Images from anywhere: sources, decoding that survives hostile files, the cache of pixels, and labels apart from them.

``open_source(spec) → Source``, ``load_images(source, config.data) → Images, Quarantine``, ``read_labels(source) → Labels``.
"""

from __future__ import annotations

from .cache import load_images
from .labels import read_labels
from .sources import Source, open_source, test_source

__all__ = ["Source", "load_images", "open_source", "read_labels", "test_source"]
