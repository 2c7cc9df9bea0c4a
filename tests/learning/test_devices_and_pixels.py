from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from reliant.config import Machine
from reliant.errors import DeviceError
from reliant.learning.device import Device, memory_advice
from reliant.learning.pixels import Pixels
from tiny_runs import pictures

without_cuda = pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA device")


@without_cuda
def test_a_device_that_is_not_there() -> None:
    with pytest.raises(DeviceError) as caught:
        Device(Machine(device="cuda"))
    assert str(caught.value) == ("machine.device = 'cuda', but torch sees no CUDA device; use machine.device=auto or cpu")


@without_cuda
def test_auto_is_the_cpu_where_there_is_nothing_else() -> None:
    assert Device(Machine(device="auto", threads=1)).torch == torch.device("cpu")


def test_the_threads_are_those_asked_for_or_all_cores() -> None:
    assert Device(Machine(device="cpu", threads=1)).threads == 1
    assert torch.get_num_threads() == 1
    assert Device(Machine(device="cpu")).threads == os.cpu_count()
    Device(Machine(device="cpu", threads=1))


@pytest.mark.parametrize(("precision", "kind"), [("auto", torch.bfloat16), ("bf16", torch.bfloat16), ("fp32", torch.float32)])
def test_matrix_products_have_the_precision_asked_for(precision: str, kind: torch.dtype) -> None:
    device = Device(Machine(device="cpu", threads=1, precision=precision))  # type: ignore[arg-type]
    with device.autocast():
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == kind


def test_a_device_describes_itself_for_the_manifest() -> None:
    found = Device(Machine(device="cpu", threads=1)).describe()
    assert found == {
        "device": "cpu",
        "name": "cpu",
        "threads": 1,
        "precision": "bf16",
        "torch": torch.__version__,
        "bits_promised": True,
    }
    assert Device(Machine(device="cpu", threads=1)).peak_bytes() > 10_000_000


def test_torchs_own_generator_draws_what_the_key_says_and_goes_on_as_before() -> None:
    device = Device(Machine(device="cpu", threads=1))
    drawn = []
    before = torch.random.get_rng_state()
    for key in (2**64 - 1, 5, 2**64 - 1):
        with device.drawing(key):
            drawn.append(torch.rand(4).tolist())
    assert drawn[0] == drawn[2] != drawn[1]
    assert torch.equal(before, torch.random.get_rng_state())


def test_used_up_memory_names_the_key_to_lower() -> None:
    with pytest.raises(DeviceError) as caught, memory_advice("local.batch"):
        raise torch.cuda.OutOfMemoryError("Tried to allocate 2 GiB\nmore")
    assert str(caught.value) == "the GPU's memory is used up; lower local.batch (Tried to allocate 2 GiB)"


def test_other_errors_pass() -> None:
    with pytest.raises(ZeroDivisionError), memory_advice("local.batch"):
        raise ZeroDivisionError


def test_pixels_are_gathered_by_index() -> None:
    array = pictures(6, channels=3)
    held = Pixels(array, torch.device("cpu"))
    assert (len(held), held.channels) == (6, 3)
    for indices in (np.array([4, 0, 4]), np.array([4, 0, 4], np.int32), torch.tensor([4, 0, 4])):
        batch = held[indices]
        assert batch.dtype == torch.uint8
        np.testing.assert_array_equal(batch.numpy(), array[[4, 0, 4]])
    assert held[np.empty(0, np.int64)].shape == (0, 12, 12, 3)


def test_pixels_of_a_file_are_read_and_never_written(tmp_path: Path) -> None:
    array = pictures(6)
    array.tofile(tmp_path / "pixels.u8")
    held = Pixels(np.memmap(tmp_path / "pixels.u8", mode="r", dtype=np.uint8, shape=array.shape), torch.device("cpu"))
    batch = held[np.array([2, 3])]
    batch += 1
    np.testing.assert_array_equal(held[np.array([2, 3])].numpy(), array[2:4])
