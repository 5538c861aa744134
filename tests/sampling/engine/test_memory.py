"""Memory: the same chains whatever is kept of conditionals within a budget, and with logits from a cache."""

import json

import numpy as np
import pytest
import torch
from sampling_cases import settings_of, small_target

from unmask.errors import InputError
from unmask.models.tabular import TabularMLM
from unmask.sampling.engine.passes import LogitMemory, Passes, chain_cost, plan_memory
from unmask.sampling.engine.randomness import ChainStreams
from unmask.sampling.kernels.metropolis import MetropolisHastings
from unmask.sampling.run.advance import draw_samples
from unmask.sampling.run.result import load_run
from unmask.sampling.target import Target, blank_template


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


@pytest.mark.parametrize("chains_at_once", [None, 2])
def test_a_small_space_is_not_computed_again_and_again(tiny, chains_at_once):
    """Two blanks with two tokens each: four texts, asked about for hundreds of steps."""
    settings = settings_of(template="the [MASK] [MASK] on", allow=((2, ("cat", "dog")), (3, ("sat", "ran"))), chains=6, sweeps=60)
    run = draw_samples(settings, tiny, chains_at_once=chains_at_once)
    assert len({tuple(ids) for ids in run.samples["ids"]}) == 4
    asked = int(run.samples.groupby("chain")["passes"].max().sum())
    assert asked > 400 and 0 < asked - run.remembered < 40
    assert np.isfinite(run.samples["energy"]).all()


SETTINGS = {"chains": 3, "sweeps": 3, "length": (6,), "passes": 3}


def budgets(tiny):
    target, settings = Target(tiny, blank_template(tiny, 6)), settings_of(**SETTINGS)
    return {keeps: chain_cost(settings.kernel, target, keeps).one for keeps in ("logits", "states")}


def test_the_first_form_of_which_a_chain_fits_is_kept(tiny):
    target, settings, cost = Target(tiny, blank_template(tiny, 6)), settings_of(**SETTINGS), budgets(tiny)
    assert plan_memory(settings, [target], tiny, None).keeps == "logits"
    least = min(cost.values())
    assert plan_memory(settings, [target], tiny, cost["logits"]).keeps == "logits"
    with pytest.raises(InputError, match=f"too little for one chain of 6 tokens, which takes {least:,}: give more memory"):
        plan_memory(settings, [target], tiny, least - 1)


@pytest.mark.parametrize("kernel", ["mh", "entropy-bound"])
@pytest.mark.parametrize("keeps", ["logits", "states"])
def test_as_many_chains_as_fit_and_not_one_more(tiny, kernel, keeps):
    settings = settings_of(kernel=kernel, **SETTINGS)
    cost = chain_cost(settings.kernel, Target(tiny, blank_template(tiny, 6)), keeps)
    for budget in (cost.one, 2 * cost.one - 1, 10 * cost.one, 12345 + 7 * cost.one):
        fitting = cost.fitting(budget)
        assert cost.of(fitting) <= budget < cost.of(fitting + 1)
    assert cost.of(5) == 5 * cost.kept + (1 if keeps == "states" else 5) * cost.work


def test_kept_states_give_the_same_chain(tiny):
    target = Target(tiny, blank_template(tiny, 6))
    ids = torch.randint(5, 17, (5, 8), generator=torch.Generator().manual_seed(0))
    ids[:, 0], ids[:, -1] = 2, 3
    states = []
    for form in ("logits", "states"):
        kernel = MetropolisHastings(target, Passes(tiny, keeps=form))
        state, streams = kernel.init(ids)[0], ChainStreams(2, range(5))
        for step in range(30):
            kernel.step(state, streams.at(0, step), torch.full((5, 1), step % 6))
        states.append(state)
    assert torch.equal(states[0].ids, states[1].ids) and not torch.equal(states[0].ids, ids)
    assert torch.allclose(states[0].energy, states[1].energy, atol=1e-4)
    assert states[1].kept.shape[2] == tiny.cost.width


def test_a_run_of_another_random_stream_is_not_continued_but_read(tiny, tmp_path):
    settings = settings_of(**SETTINGS)
    draw_samples(settings, tiny, tmp_path)
    file = tmp_path / "settings.json"
    stored = json.loads(file.read_text())
    file.write_text(json.dumps({name: value for name, value in stored.items() if name != "stream"}))
    with pytest.raises(InputError, match="holds a run with stream unset, not philox4x32-10"):
        draw_samples(settings, tiny, tmp_path)
    assert len(load_run(tmp_path).samples) == 9
