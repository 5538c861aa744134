"""Truth 1: tables that come from one joint give it back, and every faithfulness metric is zero;
mrf is the control.
"""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from support.constructions import chain, hcb, mrf, product
from support.joint_cases import ITERATED
from unmask.common.cloze import Cloze
from unmask.joints.deriving import derive
from unmask.joints.metrics import block_metrics
from unmask.models.tabular import TabularMLM
from unmask.tables.unary import unary_tables


def joint_and_tables(sites, vocab, seed, observed=1):
    """A positive joint over `sites` blanks and `observed` tokens before them, as it is given
    that those are all 0.
    """
    generator = torch.Generator().manual_seed(seed)
    shape = [vocab] * (observed + sites)
    p = (
        torch.randn(shape, generator=generator, dtype=torch.float64)
        .mul(1.3)
        .flatten()
        .softmax(0)
        .reshape(shape)
    )
    ids = (0,) * observed + (vocab,) * sites
    tables = unary_tables(
        TabularMLM.from_joint(p), Cloze(ids, tuple(range(observed, observed + sites)))
    )
    truth = p[(0,) * observed]
    return truth / truth.sum(), tables


cases = st.tuples(st.sampled_from([(2, 2), (2, 5), (3, 3)]), st.integers(0, 9999))
roomy = st.tuples(st.sampled_from([(2, 5), (3, 3)]), st.integers(0, 9999))
"""For the controls: two tokens at two sites leave one degree of freedom, which may be near
compatible by chance.
"""


@settings(max_examples=12, deadline=None)
@given(cases, st.data())
def test_faithful_constructions_recover_the_joint_and_measure_zero(case, data):
    (sites, vocab), seed = case
    truth, tables = joint_and_tables(sites, vocab, seed)
    gold = tuple(data.draw(st.integers(0, vocab - 1)) for _ in range(sites))
    pivot = [data.draw(st.integers(0, vocab - 1)) for _ in range(sites)]
    faithful = [hcb(tables), hcb(tables, pivot), chain(tables)]
    iterated = [derive(tables, name, tolerance=1e-10) for name in ITERATED]
    measured = block_metrics([*faithful, *iterated], gold)
    assert measured.incompatibility == pytest.approx(0, abs=1e-12)
    for joint, metrics in zip([*faithful, *iterated], measured.joints, strict=True):
        limit = 1e-12 if joint in faithful else 1e-8
        torch.testing.assert_close(joint.dense().exp(), truth, rtol=0, atol=limit, msg=joint.name)
        assert metrics.joint_nll == pytest.approx(-float(truth[gold].log()), abs=1e-6)
        for kl in (metrics.a_kl, metrics.g_kl, metrics.objective):
            assert kl == pytest.approx(0, abs=limit), joint.name


@settings(max_examples=12, deadline=None)
@given(roomy)
def test_the_random_field_and_the_product_are_unfaithful_even_then(case):
    (sites, vocab), seed = case
    truth, tables = joint_and_tables(sites, vocab, seed)
    measured = block_metrics([mrf(tables), product(tables)], (0,) * sites)
    for joint, metrics in zip([mrf(tables), product(tables)], measured.joints, strict=True):
        assert float((joint.dense().exp() - truth).abs().max()) > 1e-4
        assert metrics.a_kl > 1e-5
