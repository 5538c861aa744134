"""The numbers of mutants against enumeration on models given by tables."""

from itertools import product
from math import log

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from unmask.common.cloze import Cloze
from unmask.joints.deriving import derive
from unmask.models.tabular import TabularMLM
from unmask.studies.variants.effects import effects
from unmask.tables.unary import unary_tables

COMPATIBLE = ["hcb", "arnold_gokhale", "balanced", "pseudo_gibbs", "restarted"]


def tables_of(model: TabularMLM, text: list[int], block: tuple[int, ...]):
    masked = tuple(model.mask_id if t in block else x for t, x in enumerate(text))
    return unary_tables(model, Cloze(masked, block), dtype=torch.float64)


@settings(max_examples=12, deadline=None)
@given(
    st.integers(0, 10**6),
    st.sampled_from([(2, 4), (3, 3), (4, 2)]),
    st.sampled_from(COMPATIBLE),
    st.data(),
)
def test_a_models_own_joint_gives_its_own_epistasis(seed, size, construction, data):
    """Where the conditionals come from a joint p, all five numbers are those of p, by
    enumeration.
    """
    letters, length = size
    generator = torch.Generator().manual_seed(seed)
    p = torch.rand([letters] * length, generator=generator, dtype=torch.float64) + 0.02
    model = TabularMLM.from_joint(p / p.sum())
    wild = data.draw(st.lists(st.integers(0, letters - 1), min_size=length, max_size=length))
    block = tuple(
        sorted(data.draw(st.lists(st.integers(0, length - 1), min_size=1, max_size=3, unique=True)))
    )
    numbers = effects(derive(tables_of(model, wild, block), construction), [wild[t] for t in block])

    def log_p(values: tuple[int, ...]) -> float:
        text = list(wild)
        for t, x in zip(block, values, strict=True):
            text[t] = x
        return log(float(p[tuple(text)]))

    own = tuple(wild[t] for t in block)
    total = torch.tensor(
        [log_p(x) for x in product(range(letters), repeat=len(block))], dtype=torch.float64
    ).logsumexp(0)
    for x in product(range(letters), repeat=len(block)):
        single = sum(log_p((*own[:i], x[i], *own[i + 1 :])) - log_p(own) for i in range(len(block)))
        effect = log_p(x) - log_p(own)
        expected = [log_p(x) - float(total), effect, single, effect - single, effect - single]
        values = [
            float(numbers[name][x])
            for name in ("log_prob", "effect", "singles", "epistasis", "interaction")
        ]
        assert values == pytest.approx(expected, abs=1e-6)


def test_incompatible_conditionals_and_independent_residues():
    """The product joint has no interaction, whatever the model; its epistasis is then what the
    model's context adds.
    """
    model = TabularMLM.random(4, 3, 2)
    wild = [1, 3, 0]
    tables = tables_of(model, wild, (0, 2))
    independent = effects(derive(tables, "product"), [1, 0])
    assert (
        float(independent["interaction"].abs().max())
        < 1e-9
        < 0.1
        < float(independent["epistasis"].abs().max())
    )
    balanced = effects(derive(tables, "balanced"), [1, 0])
    assert float((balanced["epistasis"] - balanced["interaction"]).abs().max()) > 0.05
    log_q = [table.double() for table in tables.log_q]
    for x, y in product(range(4), repeat=2):
        single = float(log_q[0][x, 0] - log_q[0][1, 0] + log_q[1][1, y] - log_q[1][1, 0])
        assert float(balanced["singles"][x, y]) == pytest.approx(single, abs=1e-9)
