"""The device, its precision and its threads."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch

from ..errors import DeviceError, must

if TYPE_CHECKING:
    from .. import config


class Device:
    """Where and how a network runs: one code path for CPU and CUDA."""

    def __init__(self, machine: config.Machine) -> None:
        name = machine.device
        if name == "auto":
            name = "cuda" if torch.cuda.is_available() else "cpu"
        must(
            name == "cpu" or torch.cuda.is_available(),
            DeviceError,
            "machine.device = 'cuda', but torch sees no CUDA device; use machine.device=auto or cpu",
        )
        self.torch = torch.device(name)
        self.threads = machine.threads or os.cpu_count() or 1
        torch.set_num_threads(self.threads)
        self.bf16 = machine.precision != "fp32"
        if name == "cuda":
            # Deterministic kernels where cuDNN has them; max pooling's backward has none, so no bits are promised there.
            torch.backends.cudnn.deterministic = True
            torch.backends.cudnn.benchmark = False
            torch.backends.cuda.matmul.allow_tf32 = True

    @property
    def promises_bits(self) -> bool:
        return self.torch.type == "cpu"

    def autocast(self) -> torch.autocast:
        return torch.autocast(self.torch.type, dtype=torch.bfloat16, enabled=self.bf16)

    @contextlib.contextmanager
    def drawing(self, key: int) -> Iterator[None]:
        """Modules of a user's trunk that draw from torch's own generator (``nn.Dropout``) draw what ``key`` says."""
        cuda = self.torch.type == "cuda"
        with torch.random.fork_rng(devices=[torch.cuda.current_device()] if cuda else []):
            torch.default_generator.manual_seed(key % 2**63)
            if cuda:
                torch.cuda.manual_seed(key % 2**63)
            yield

    def describe(self) -> dict[str, object]:
        """For the manifest."""
        name = torch.cuda.get_device_name(self.torch) if self.torch.type == "cuda" else "cpu"
        return {
            "device": self.torch.type,
            "name": name,
            "threads": self.threads,
            "precision": "bf16" if self.bf16 else "fp32",
            "torch": torch.__version__,
            "bits_promised": self.promises_bits,
        }

    def peak_bytes(self) -> int:
        if self.torch.type == "cuda":
            return int(torch.cuda.max_memory_allocated(self.torch))
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@contextlib.contextmanager
def memory_advice(key: str) -> Iterator[None]:
    """Out of GPU memory becomes an error that names the key to lower."""
    try:
        yield
    except torch.cuda.OutOfMemoryError as error:
        raise DeviceError(f"the GPU's memory is used up; lower {key} ({str(error).splitlines()[0]})") from None
