"""Tables written straight from logits by Triton, interpreted here, against a softmax over the candidates."""

from __future__ import annotations

import os
from importlib.util import find_spec
from inspect import signature

import pytest
import torch

if not (find_spec("triton") and os.environ.get("TRITON_INTERPRET")):
    pytest.skip("compiled here, and held by the tests of tables on a GPU", allow_module_level=True)


@pytest.mark.parametrize(("before", "after"), [(1, 7), (7, 1), (3, 4)])
@pytest.mark.parametrize("whole", [True, False])
def test_rows_of_logits_become_cells_mass_and_total(before, after, whole):
    from unmask.tables.filling import fill

    generator = torch.Generator().manual_seed(0)
    logits = 5 * torch.randn(7, 24, generator=generator)[:, :20]
    logits[2, 3] = -torch.inf
    candidates = torch.arange(20) if whole else torch.tensor([3, 0, 17, 9, 11])
    n = len(candidates)
    table = torch.full((before, n, after), torch.nan)
    totals = [fill(table, 0, logits[:2], candidates, whole), fill(table, 2, logits[2:], candidates, whole)]
    total, mass = (torch.cat(part) for part in zip(*totals, strict=True))
    inside = logits[:, candidates]
    torch.testing.assert_close(total, inside.logsumexp(1))
    torch.testing.assert_close(mass, inside.logsumexp(1) - logits.logsumexp(1), rtol=1e-5, atol=1e-6)
    flat = table.transpose(1, 2).reshape(-1, n)
    torch.testing.assert_close(flat[:7], inside.log_softmax(1), rtol=1e-5, atol=1e-6)
    assert flat[7:].isnan().all()


class Recorder:
    """In a program's place: notes what a launch would be compiled for, which are constants, types, and which addresses and
    numbers are multiples of 16 or are 1.
    """

    def __init__(self, kinds, program):
        self.kinds, self.program = kinds, program

    def __getitem__(self, grid):
        return self

    def __call__(self, *given, **constants):
        names, free = list(signature(self.program.fn).parameters), self.program.kwargs["do_not_specialize"]
        arguments = tuple(_kind(value, name not in free) for name, value in zip(names, given, strict=False))
        self.kinds.add((self.program.fn.__name__, arguments, tuple(constants.items())))


def _kind(value, specialized):
    if isinstance(value, torch.Tensor):
        return value.dtype, value.data_ptr() % 16 == 0
    return (value % 16 == 0, value == 1) if specialized else None


@pytest.mark.parametrize(
    ("tokens", "n", "stride"), [(8192, 8192, 8192), (8192, 8187, 8192), (28996, 28996, 29056), (101, 101, 101)]
)
@pytest.mark.parametrize("rows", [24, 7])
def test_a_rehearsal_of_filling_is_compiled_for_what_the_real_one_is(tokens, n, stride, rows, monkeypatch):
    from unmask.tables import filling

    kinds: set[tuple[object, ...]] = set()
    for name in ("_sums", "_write"):
        monkeypatch.setattr(filling, name, Recorder(kinds, getattr(filling, name)))
    filling.rehearse(tokens, n, torch.device("cpu"))
    rehearsed = set(kinds)
    assert len(rehearsed) == 3
    logits, candidates = torch.empty(rows, stride)[:, :tokens], torch.arange(n)
    for shape in ((1, n, n), (rows, n, 1)):
        filling.fill(torch.empty(1).expand(shape), 0, logits, candidates, n == tokens)
    assert kinds == rehearsed
    filling.fill(torch.empty(1).expand(1, n, n), 0, logits[:, 1:], candidates, False)
    assert kinds > rehearsed, "control: logits that begin elsewhere are a program of their own"
