"""Devices by name: those that there are, and the line in which any other is refused."""

import pytest
import torch

from unmask.common.errors import ModelError
from unmask.runs.devices import resolve_device

CPU = torch.device("cpu")
FIRST_GPU, SECOND_GPU = torch.device("cuda:0"), torch.device("cuda:1")


@pytest.fixture
def gpus(monkeypatch):
    """gpus(count): torch sees this many GPUs."""

    def see(count):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: count)

    return see


@pytest.mark.parametrize("name", ["auto", "cpu", "cpu:0", CPU])
def test_without_a_gpu_there_is_the_cpu(gpus, name):
    gpus(0)
    assert resolve_device(name) == CPU


@pytest.mark.parametrize(
    ("name", "device"),
    [
        ("auto", torch.device("cuda")),
        ("cuda", torch.device("cuda")),
        ("cuda:1", SECOND_GPU),
        (FIRST_GPU, FIRST_GPU),
        ("cpu", CPU),
    ],
)
def test_gpus_are_counted_from_0(gpus, name, device):
    gpus(2)
    assert resolve_device(name) == device


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (3, "device 3 is not known: use auto, cpu, cuda or cuda:N"),
        ("gpu", "device 'gpu' is not known"),
        ("cpu,cpu", "is a list, for score, evaluate, sample and translate: use one here"),
        ("meta", "device 'meta' is not one that unmask runs on"),
        ("cpu:1", "device 'cpu:1' is not one that unmask runs on"),
        ("cuda:2", "'cuda:2' was asked for, and there are 2, from cuda:0: use one"),
    ],
)
def test_other_devices_are_refused(gpus, name, message):
    gpus(2)
    with pytest.raises(ModelError, match=message):
        resolve_device(name)


def test_a_gpu_where_there_is_none_is_refused(gpus):
    gpus(0)
    with pytest.raises(ModelError, match="this torch sees no CUDA device: use cpu"):
        resolve_device("cuda")
