"""The tables against a plain loop, one text and one cell at a time."""

from itertools import combinations, product
from math import comb, log, prod

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from support.constructions import NAMES
from unmask.common.cloze import Cloze
from unmask.common.errors import InputError
from unmask.joints.constructions.arnold_gokhale import NearCompatible
from unmask.joints.deriving import derive
from unmask.joints.metrics import block_metrics
from unmask.joints.registry import named
from unmask.models.tabular import TabularMLM
from unmask.tables.unary import unary_tables


class Batched(TabularMLM):
    """A tabular model that hands out `batch` rows at a time and counts all texts it was asked
    about.
    """

    batch = 1
    texts = 0

    def logits_at(self, ids, positions):
        self.texts += len(ids)
        return super().logits_at(ids, positions)

    def substitutions(self, ids, vary, values, predict):
        for start in range(0, len(values), self.batch):
            part = values[start : start + self.batch]
            ((_, logits),) = super().substitutions(ids, vary, part, predict)
            yield slice(start, start + len(part)), logits


@st.composite
def cases(draw, sites):
    """A random model, a text over it, a block of `sites` positions, candidate sets and a batch
    size.
    """
    length = draw(st.integers(sites, 4))
    vocab = draw(st.integers(2, 4 if length < 4 else 3))
    block = draw(st.permutations(range(length)))[:sites]
    ids = [draw(st.integers(0, vocab - 1)) for _ in range(length)]
    for position in block:
        ids[position] = vocab
    tokens = st.lists(st.integers(0, vocab - 1), min_size=1, max_size=vocab, unique=True)
    candidates = draw(st.none() | st.tuples(*[tokens] * sites))
    model = {"vocab_size": vocab, "length": length, "seed": draw(st.integers(0, 999))}
    return model, draw(st.integers(1, 12)), Cloze(tuple(ids), tuple(block)), candidates


def build(case):
    settings, batch, cloze, candidates = case
    model = Batched.random(**settings)
    model.batch = batch
    return model, cloze, [torch.tensor(c) for c in candidates] if candidates else None


def log_probs(model, ids, position):
    """log q at one position of one text."""
    return model.logits(torch.tensor([ids]), torch.tensor([[position]]))[0, 0].log_softmax(0)


def check_cell(model, cloze, axes, t, visible, place, log_q, log_mass):
    """One cell of a table that conditions on the sites `visible` of the block, the others being
    masked.
    """
    ids = list(cloze.ids)
    for s in visible:
        ids[cloze.block[s]] = int(axes[s][place[s]])
    log_p = log_probs(model, ids, cloze.block[t])[axes[t]]
    torch.testing.assert_close(log_q, log_p.log_softmax(0)[place[t]])
    torch.testing.assert_close(log_mass, log_p.logsumexp(0))
    logits = model.logits(torch.tensor([ids]), torch.tensor([[cloze.block[t]]]))[0, 0]
    return logits[axes[t][place[t]]]


def cell(tensor, place):
    return tensor[tuple(p if size > 1 else 0 for p, size in zip(place, tensor.shape, strict=True))]


@pytest.mark.parametrize("sites", [1, 2, 3, 4])
def test_every_cell_equals_a_plain_pass_over_the_text_and_the_chain_masks_the_rest(sites):
    @settings(max_examples=15, deadline=None)
    @given(cases(sites))
    def check(case):
        model, cloze, candidates = build(case)
        tables = unary_tables(model, cloze, candidates)
        axes = candidates or [torch.arange(model.vocab_size)] * sites
        assert tables.shape == tuple(len(axis) for axis in axes)
        for t in range(sites):
            masked = log_probs(model, cloze.ids, cloze.block[t])[axes[t]]
            torch.testing.assert_close(tables.log_masked[t], masked.log_softmax(0))
            assert tables.log_masked_inside[t] == pytest.approx(float(masked.logsumexp(0)))
            assert tables.log_q[t].is_contiguous()
        assert len(tables.log_between) == sum(
            comb(sites, size) * (sites - size) for size in range(1, sites - 1)
        )
        for place in product(*[range(n) for n in tables.shape]):
            for t in range(sites):
                others = [s for s in range(sites) if s != t]
                log_q, inside = cell(tables.log_q[t], place), cell(tables.log_inside[t], place)
                logit = check_cell(model, cloze, axes, t, others, place, log_q, inside)
                torch.testing.assert_close(log_q + cell(tables.log_total[t], place), logit)
            for (visible, t), tensor in tables.log_between.items():
                ids = list(cloze.ids)
                for s in visible:
                    ids[cloze.block[s]] = int(axes[s][place[s]])
                torch.testing.assert_close(
                    cell(tensor, place), log_probs(model, ids, cloze.block[t])[axes[t][place[t]]]
                )

    check()


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 4).flatmap(cases))
def test_progress_counts_the_passes_that_are_made(case):
    model, cloze, candidates = build(case)
    seen = []
    tables = unary_tables(
        model, cloze, candidates, progress=lambda done, total, what: seen.append((done, total))
    )
    sizes, k = tables.shape, tables.sites
    revealed = [s for size in range(min(1, k - 1), k) for s in combinations(range(k), size)]
    totals = {total for _, total in seen}
    assert (
        totals
        == {1 + sum((k - len(s)) * prod(sizes[t] for t in s) for s in revealed)}
        == {model.texts}
    )
    done = [d for d, _ in seen]
    assert done == sorted(done)
    assert done[-1] == model.texts


def test_conditionals_are_normalised_over_the_support_and_say_what_lies_outside():
    model = TabularMLM.random(5, 2, seed=8)
    model.special_ids = (0,)
    cloze, sets = Cloze((5, 5), (0, 1)), [torch.tensor([1, 3]), torch.tensor([4, 1, 2, 3])]
    tables = unary_tables(model, cloze, sets)
    for t, (tokens, others) in enumerate(zip(sets, reversed(sets), strict=True)):
        masked = log_probs(model, cloze.ids, t).exp()
        assert tables.log_masked_support[t] == pytest.approx(log(1 - float(masked[0])))
        assert tables.log_masked_inside[t] == pytest.approx(
            log(float(masked[tokens].sum() / masked[1:].sum())), abs=1e-12
        )
        for place, token in enumerate(others.tolist()):
            ids = [token if s != t else 5 for s in range(2)]
            q = log_probs(model, ids, t).exp()
            inside = tables.log_inside[t].flatten()[place]
            torch.testing.assert_close(inside, (q[tokens].sum() / q[1:].sum()).log())
    assert tables.log_masked_inside[1] == 0
    assert bool((tables.log_inside[1] == 0).all())
    assert tables.log_mass < sum(tables.log_masked_inside) < 0
    letters = unary_tables(model, cloze, sets, support=[torch.tensor([1, 3, 4]), sets[1]])
    assert letters.log_masked_inside[0] > tables.log_masked_inside[0]
    assert letters.log_mass == pytest.approx(tables.log_mass), (
        "of the whole vocabulary the candidates hold what they hold"
    )
    with pytest.raises(InputError, match="candidate 0 is outside the support"):
        unary_tables(model, cloze, [torch.tensor([0, 1]), sets[1]])


def test_half_precision_logits_give_float32_tables():
    model = TabularMLM.random(5, 2, seed=4)
    half = TabularMLM(model.table.bfloat16())
    tables = unary_tables(half, Cloze((5, 5), (0, 1)))
    exact = unary_tables(TabularMLM(half.table.double()), Cloze((5, 5), (0, 1)))
    for t in range(2):
        assert tables.log_q[t].dtype == tables.log_total[t].dtype == torch.float32
        torch.testing.assert_close(tables.log_q[t].double(), exact.log_q[t], rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(
            tables.log_total[t].double(), exact.log_total[t], rtol=1e-6, atol=1e-6
        )


def all_candidates_ruled_out(where):
    """Two blanks of six tokens, candidates 1 and 2 at each; `where` in a table's rows the model
    rules both out at blank 0.
    """
    model = TabularMLM.random(6, 2, seed=9)
    model.table[(0, 6, where)][..., [1, 2]] = -torch.inf
    candidates = [torch.tensor([1, 2])] * 2
    return model, unary_tables(model, Cloze((6, 6), (0, 1)), candidates)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_context_that_rules_out_all_candidates_leaves_the_chain_exact_and_no_answer_is_nan(dtype):
    model, tables = all_candidates_ruled_out(where=1)
    if dtype == torch.float32:
        model = TabularMLM(model.table.float())
        tables = unary_tables(model, Cloze((6, 6), (0, 1)), list(tables.candidates))
    table = model.table.double()
    first, second = table[0, 6, 6].softmax(0), table[1, 6, 6].softmax(0)
    expected = torch.zeros(2, 2, dtype=torch.float64)
    for x, y in product(range(2), range(2)):
        last = table[0, 6, y + 1].softmax(0)[x + 1], table[1, x + 1, 6].softmax(0)[y + 1]
        expected[x, y] = second[y + 1] * last[0] / 2 + first[x + 1] * last[1] / 2
    torch.testing.assert_close(
        derive(tables, "chain").dense().exp().double(),
        expected / expected.sum(),
        rtol=1e-5,
        atol=1e-6,
    )
    for name in NAMES:
        try:
            joint = derive(tables, name)
        except InputError as error:
            assert (
                "the model rules out all those of another blank; give more candidates, or use chain"
                in str(error)
            )
            assert name == "hcb" or isinstance(named(name), NearCompatible)
        else:
            assert float(joint.dense().exp().sum()) == pytest.approx(1, abs=1e-5), name
            with pytest.raises(InputError, match="metrics cannot be computed over these tables"):
                block_metrics([joint], [1, 2])


def test_a_blank_whose_candidates_are_all_ruled_out_is_refused():
    with pytest.raises(
        InputError, match="the model rules out every candidate of blank 1: give others"
    ):
        all_candidates_ruled_out(where=6)
    _, control = all_candidates_ruled_out(
        where=3
    )  # not a candidate: no cell of the tables is there
    assert not control.some_context_is_impossible
    for name in NAMES:
        assert float(derive(control, name).dense().exp().sum()) == pytest.approx(1, abs=1e-5)


def test_fillings_by_candidates_that_the_model_rules_out_together_are_refused():
    model, _ = all_candidates_ruled_out(where=1)
    model.table[0, 6, 2, [1, 2]] = -torch.inf
    model.table[1, [1, 2], 6, 1:3] = -torch.inf
    tables = unary_tables(model, Cloze((6, 6), (0, 1)), [torch.tensor([1, 2])] * 2)
    with pytest.raises(
        InputError, match="the model rules out every filling by candidates; give others"
    ):
        derive(tables, "chain")
