"""A model that defines `logits` alone: its defaults give what a model with everything of its
own gives.
"""

import torch

from unmask.common.cloze import Cloze
from unmask.models.conditional_model import ConditionalModel
from unmask.sampling.engine.passes import Passes
from unmask.sampling.target import blank_template
from unmask.tables.unary import unary_tables


class Plain(ConditionalModel):
    """The attributes that have no default, and the logits of another model."""

    def __init__(self, model):
        self.model = model
        self.vocab_size, self.mask_id, self.device, self.dtype = (
            model.vocab_size,
            model.mask_id,
            model.device,
            model.dtype,
        )

    def logits_at(self, ids, positions):
        return self.model.logits_at(ids, positions)


def test_tables_of_the_defaults_are_those_of_the_model(tiny):
    cloze = tiny.cloze("the [MASK] sat on [MASK]")
    plain, own = (unary_tables(model, cloze) for model in (Plain(tiny), tiny))
    for a, b in zip(plain.log_q, own.log_q, strict=True):
        assert torch.allclose(a, b, atol=1e-5)
    assert plain.label(7) == "7"
    assert own.label(7) == tiny.token(7)
    text = list(cloze.ids)
    ((rows, logits),) = Plain(tiny).substitutions(
        text, [2], torch.tensor([[5], [6]]), cloze.block[1]
    )
    assert rows == slice(0, 2)
    other = Cloze((*text[:2], 6, *text[3:]), (cloze.block[1],))
    assert torch.equal(
        logits[1],
        tiny.logits(torch.tensor([other.ids]).repeat(2, 1), torch.full((2, 1), other.block[0]))[
            1, 0
        ],
    )


def test_samplers_ask_the_same_of_both(tiny):
    assert blank_template(Plain(tiny), 2) == (tiny.mask_id,) * 2
    assert blank_template(tiny, 2) == tiny.cloze("[MASK] [MASK]").ids
    ids = torch.tensor([tiny.cloze("the [MASK]").ids])
    assert not Passes(Plain(tiny), form="states").as_states(ids)
    assert Passes(tiny, form="states").as_states(ids)
