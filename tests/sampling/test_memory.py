"""Remembered logits: the same chains with fewer passes, in bounded memory."""

import numpy as np
import pytest
import torch
from sampling_cases import small_target

from unmask.models.tabular import TabularMLM
from unmask.sampling.engine.memory import LogitMemory
from unmask.sampling.engine.passes import Passes
from unmask.sampling.engine.randomness import ChainStreams
from unmask.sampling.kernels.metropolis import MetropolisHastings
from unmask.sampling.run.advance import draw_samples
from unmask.sampling.settings import SampleSettings


def chain(target, passes, sweeps):
    kernel = MetropolisHastings(target, passes)
    state, _ = kernel.init(torch.zeros((4, target.sites), dtype=torch.long))
    streams, texts = ChainStreams(0, range(4)), []
    for sweep in range(sweeps):
        for site in range(target.sites):
            kernel.step(state, streams.at(sweep, site), torch.full((4, 1), site))
        texts.append(state.ids.clone())
    return torch.stack(texts)


@pytest.mark.parametrize("rows", [None, 5, 1])
def test_chains_are_the_same_with_fewer_passes(rows):
    target = small_target(vocab=3, length=3, seed=5)
    plain, remembering = Passes(target.model), Passes(target.model, memory=LogitMemory(target.model, rows))
    assert torch.equal(chain(target, plain, 40), chain(target, remembering, 40))
    assert plain.count == remembering.count and plain.remembered == 0
    ran = remembering.count - remembering.remembered
    assert ran < plain.count
    if rows is None:
        assert ran <= 27, "27 texts with one position masked, each run once"


class Counted(TabularMLM):
    rows = 0

    def logits(self, ids, positions):
        Counted.rows += len(ids)
        return super().logits(ids, positions)


def test_the_least_recently_used_rows_go_first():
    model = Counted(TabularMLM.random(3, 2, 0).table)
    passes = Passes(model, rows=1, memory=LogitMemory(model, rows=2))

    def ask(*tokens):
        before = Counted.rows
        ids = torch.tensor([[token, 3] for token in tokens])
        logits = passes.logits(ids, torch.ones((len(tokens), 1), dtype=torch.long))
        assert torch.equal(logits, TabularMLM(model.table).logits(ids, torch.ones((len(tokens), 1), dtype=torch.long)))
        return Counted.rows - before

    assert ask(0, 0, 1) == 2, "a row that is asked for twice is run once"
    assert ask(0) == 0
    assert ask(2) == 1
    assert ask(0) == 0, "0 was used after 1, so 1 has gone"
    assert ask(1) == 1
    assert ask(0, 1, 2) == 1 and ask(1, 2) == 0


def test_another_position_of_the_same_text_is_another_row():
    model = TabularMLM.random(3, 2, 0)
    passes = Passes(model, memory=LogitMemory(model))
    ids = torch.tensor([[0, 1]])
    first, second = (passes.logits(ids, torch.tensor([[position]])) for position in (0, 1))
    assert not torch.equal(first, second) and passes.remembered == 0


def test_a_small_space_is_not_computed_again_and_again(tiny):
    """Two blanks with two tokens each: four texts, asked about for hundreds of steps."""
    settings = SampleSettings(
        template="the [MASK] [MASK] on", allow=((2, ("cat", "dog")), (3, ("sat", "ran"))), chains=6, sweeps=60
    )
    run = draw_samples(settings, tiny)
    assert len({tuple(ids) for ids in run.samples["ids"]}) == 4
    asked = int(run.samples.groupby("chain")["passes"].max().sum())
    assert asked > 400 and asked - run.remembered < 40
    assert np.isfinite(run.samples["energy"]).all()
