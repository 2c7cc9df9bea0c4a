"""What the tests of the protocols share: one thread, as the matrices are tiny, and a small learnable problem."""

from __future__ import annotations

import numpy as np
import pytest
import torch


@pytest.fixture(autouse=True, scope="package")
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def blobs():
    """train (300, 12), labels, test (200, 12), labels: four overlapping classes whose columns differ in scale and offset."""
    random = np.random.default_rng(0)
    centres = random.normal(size=(4, 12))
    labels = random.integers(0, 4, size=500)
    features = centres[labels] + 1.3 * random.normal(size=(500, 12))
    features = (features * np.geomspace(0.01, 100, 12) + np.linspace(-50, 50, 12)).astype(np.float32)
    return features[:300], labels[:300], features[300:], labels[300:]
