"""Which devices a model is loaded on, and how another process loads it."""

import pytest
import torch

import unmask
from unmask.common.errors import InputError
from unmask.models.sharing import devices_of, loader_on, shared_model, workers_for


def test_numbers_of_a_list_are_gpus():
    assert devices_of(unmask.ModelSpec(device="cuda:0,1, cuda:3")) == (
        "cuda:0",
        "cuda:1",
        "cuda:3",
    )
    assert devices_of(unmask.ModelSpec("name", "cpu,cpu")) == ("cpu", "cpu")
    assert devices_of("name") == ("auto",) == devices_of(None)


def test_one_device_has_no_workers(copied):
    model, workers, loader = shared_model(unmask.ModelSpec(copied, device="cpu"), "local")
    assert model.folder == copied
    assert workers is None
    assert loader is None


def test_several_devices_have_a_worker_each(copied):
    several = unmask.ModelSpec(copied, device="cpu,cpu", dtype="float64")
    model, workers, loader = shared_model(several, "local")
    assert model.device == torch.device("cpu")
    assert workers is not None
    assert loader().dtype == torch.float64


def test_devices_of_several_kinds_are_refused(copied, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    mixed = unmask.ModelSpec(copied, device="cpu,cuda:0")
    with pytest.raises(InputError, match="'cpu,cuda:0' mixes kinds, whose numbers differ"):
        workers_for(mixed, "local")


def test_another_process_is_told_the_absolute_path_of_a_folder(copied, monkeypatch):
    monkeypatch.chdir(copied.parent)
    for model in (copied.name, unmask.ModelSpec(copied.name, "cpu")):
        loader = loader_on(model, "cuda:1")
        assert loader.__self__ == unmask.ModelSpec(str(copied.resolve()), device="cuda:1")
    assert loader_on("owner/name", "cpu").__self__.name == "owner/name"
    with pytest.raises(InputError, match="give its folder or name, not a loaded model"):
        loader_on(unmask.load(copied, device="cpu"), "cpu")
