"""Tables written straight from logits by Triton, interpreted here, against a softmax over the
candidates.
"""

import os
from importlib.util import find_spec

import pytest
import torch

from support.launch_kinds import record

if not (find_spec("triton") and os.environ.get("TRITON_INTERPRET")):
    pytest.skip("compiled here, and held by the tests of tables on a GPU", allow_module_level=True)


@pytest.mark.parametrize(("before", "after"), [(1, 7), (7, 1), (3, 4)])
@pytest.mark.parametrize("whole", [True, False])
def test_rows_of_logits_become_cells_mass_and_total(before, after, whole):
    from unmask.tables.triton_cells import fill

    generator = torch.Generator().manual_seed(0)
    logits = 5 * torch.randn(7, 24, generator=generator)[:, :20]
    logits[2, 3] = -torch.inf
    candidates = torch.arange(20) if whole else torch.tensor([3, 0, 17, 9, 11])
    n = len(candidates)
    table = torch.full((before, n, after), torch.nan)
    totals = [
        fill(table, 0, logits[:2], candidates, whole),
        fill(table, 2, logits[2:], candidates, whole),
    ]
    total, mass = (torch.cat(part) for part in zip(*totals, strict=True))
    inside = logits[:, candidates]
    torch.testing.assert_close(total, inside.logsumexp(1))
    torch.testing.assert_close(
        mass, inside.logsumexp(1) - logits.logsumexp(1), rtol=1e-5, atol=1e-6
    )
    flat = table.transpose(1, 2).reshape(-1, n)
    torch.testing.assert_close(flat[:7], inside.log_softmax(1), rtol=1e-5, atol=1e-6)
    assert flat[7:].isnan().all()


@pytest.mark.parametrize(
    ("tokens", "n", "stride"),
    [(8192, 8192, 8192), (8192, 8187, 8192), (28996, 28996, 29056), (101, 101, 101)],
)
@pytest.mark.parametrize("rows", [24, 7])
def test_a_precompilation_of_filling_is_compiled_for_what_the_real_one_is(
    tokens, n, stride, rows, monkeypatch
):
    from unmask.tables import triton_cells

    kinds = record(monkeypatch, triton_cells, "_sums", "_write", launched=False)
    triton_cells.precompile(tokens, n, torch.device("cpu"))
    precompiled = set(kinds)
    assert len(precompiled) == 3
    logits, candidates = torch.empty(rows, stride)[:, :tokens], torch.arange(n)
    for shape in ((1, n, n), (rows, n, 1)):
        triton_cells.fill(torch.empty(1).expand(shape), 0, logits, candidates, n == tokens)
    assert kinds == precompiled
    triton_cells.fill(torch.empty(1).expand(1, n, n), 0, logits[:, 1:], candidates, False)
    assert kinds > precompiled, "control: logits that begin elsewhere are a program of their own"
