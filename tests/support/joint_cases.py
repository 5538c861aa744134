"""Enumerable blocks: random models, whose conditionals disagree, and joints, whose conditionals
agree.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from math import prod

import torch
from hypothesis import strategies as st

from unmask.common.cloze import Cloze
from unmask.joints.acceleration import Acceleration
from unmask.joints.constructions.arnold_gokhale import Member, NearCompatible
from unmask.joints.constructions.construction import all_constructions
from unmask.joints.deriving import derive
from unmask.joints.family_rule import plain_step
from unmask.joints.fixed_point import FixedPoint
from unmask.joints.joint import Joint
from unmask.joints.members import Marginals, Members, flat, unflat
from unmask.joints.sweeps import sweep
from unmask.joints.tiles import tiles
from unmask.models.tabular import TabularMLM
from unmask.tables.conditionals import Conditionals
from unmask.tables.exploration import Variant
from unmask.tables.lattice import lattice
from unmask.tables.unary import Tables, unary_tables

SIZES = [(2, 2), (2, 5), (3, 3), (4, 2)]
"""(sites, vocabulary)."""
sizes = st.sampled_from(SIZES)
seeds = st.integers(0, 9999)


ITERATED = [one.name for one in all_constructions() if isinstance(one, NearCompatible)]


def exactly(tables: Tables, name: str) -> Joint:
    """A construction by name, the iterated ones far beyond the default tolerance."""
    return derive(tables, name, **({"tolerance": 1e-9} if name in ITERATED else {}))


def whole_block(vocab: int, sites: int) -> Cloze:
    """Every position of the text is a blank."""
    return Cloze((vocab,) * sites, tuple(range(sites)))


def random_tables(size: tuple[int, int], seed: int, scale: float = 1.5, candidates=None) -> Tables:
    """The tables of independent random logits."""
    sites, vocab = size
    return unary_tables(
        TabularMLM.random(vocab, sites, seed, scale), whole_block(vocab, sites), candidates
    )


def random_joint(size: tuple[int, int], seed: int) -> torch.Tensor:
    """A positive joint over all fillings."""
    sites, vocab = size
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn([vocab] * sites, generator=generator, dtype=torch.float64)
    return (1.3 * logits).flatten().softmax(0).reshape(logits.shape)


def tables_of(p: torch.Tensor, candidates=None) -> Tables:
    """The conditionals of the joint `p`."""
    return unary_tables(TabularMLM.from_joint(p), whole_block(p.shape[0], p.dim()), candidates)


def every_filling(model: TabularMLM, variants: Sequence[Variant]) -> dict[tuple[int, ...], float]:
    """{(variant, *tokens): weight times p} of all fillings of all variants, by the lattice of
    each.
    """
    every = {}
    for number, variant in enumerate(variants):
        fillings = list(product(range(model.vocab_size), repeat=variant.sites))
        texts = torch.tensor([variant.cloze.filled(values) for values in fillings])
        sites = torch.tensor([variant.cloze.block]).expand(len(texts), -1)
        p = lattice(Conditionals(model), texts, sites).log_mean.exp() * variant.weight
        every.update(
            {(number, *values): float(value) for values, value in zip(fillings, p, strict=True)}
        )
    return every


def without(p: torch.Tensor) -> list[torch.Tensor]:
    """mu_{-t} for every t."""
    return [p.sum(t, keepdim=True) for t in range(p.dim())]


def distance(p: torch.Tensor, q: torch.Tensor) -> float:
    """Total variation."""
    return 0.5 * float((p - q).abs().sum())


def settled(tables: Tables, log_mu: Marginals, member: Member) -> Marginals:
    """Plain steps until they stand still."""
    change = 1.0
    while change > 1e-13:
        before, log_mu = log_mu, plain_step(tables, log_mu, member)
        change = max(
            float((a.exp() - b.exp()).abs().sum()) for a, b in zip(before, log_mu, strict=True)
        )
    return log_mu


def random_scan_step(tables: Tables) -> torch.Tensor:
    """The matrix over all fillings of a step that redraws a random site from its conditional."""
    shape, cells = tables.shape, prod(tables.shape)
    step = torch.zeros((cells, cells), dtype=torch.float64)
    places = torch.stack(torch.unravel_index(torch.arange(cells), shape), 1).tolist()
    for x, place in enumerate(places):
        for t, log_q in enumerate(tables.log_q):
            for token in range(shape[t]):
                there = [*place[:t], token, *place[t + 1 :]]
                y = sum(i * prod(shape[s + 1 :]) for s, i in enumerate(there))
                step[x, y] += float(log_q[tuple(there)].exp()) / len(shape)
    return step


def tables_from(
    log_q: Sequence[torch.Tensor], log_masked: Sequence[torch.Tensor] | None = None
) -> Tables:
    """Tables of any size from conditionals; uniform masked distributions unless given."""
    shape, like = log_q[0].shape, log_q[0]
    empty = tuple(
        like.new_zeros([1 if s == t else n for s, n in enumerate(shape)]) for t in range(len(shape))
    )
    masked = log_masked or [like.new_zeros(n).log_softmax(0) for n in shape]
    tokens = tuple(torch.arange(n) for n in shape)
    return Tables(tokens, tuple(log_q), empty, empty, tuple(masked), (0.0,) * len(shape))


def large_tables(shape: Sequence[int], seed: int, scale: float = 1.5) -> Tables:
    """Random conditionals over more cells than one tile of the streamed sums holds."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*size: int) -> torch.Tensor:
        return scale * torch.randn(size, generator=generator, dtype=torch.float64)

    tables = tables_from(
        [normal(*shape).log_softmax(t) for t in range(len(shape))],
        [normal(n).log_softmax(0) for n in shape],
    )
    assert len(list(tiles(tables.log_q[0]))) > 1
    return tables


def float32_pair(
    shape: tuple[int, int], seed: int, device: str = "cpu", zeros: bool = False
) -> Tables:
    """A pair's tables in float32; `zeros`: tokens that the model rules out in one table, in
    both, in every context.
    """
    generator = torch.Generator().manual_seed(seed)
    logits = [(3 * torch.randn(shape, generator=generator)).to(device) for _ in range(2)]
    if zeros:
        logits[0][2, 5] = logits[0][7, 8] = logits[1][7, 8] = -torch.inf
        logits[0][-1] = logits[1][:, -1] = -torch.inf
    masked = [torch.randn(size, generator=generator).to(device).log_softmax(0) for size in shape]
    tables = tables_from([f.log_softmax(t) for t, f in enumerate(logits)], masked)
    totals = tuple(f.logsumexp(t, keepdim=True) for t, f in enumerate(logits))
    return replace(
        tables, candidates=tuple(c.to(device) for c in tables.candidates), log_total=totals
    )


def swept(tables: Tables, log_mu: Marginals, member: Member) -> Marginals:
    """The marginals after one sweep of the solver."""
    return unflat(sweep(Members.of([tables], [member]), flat(log_mu)[None, :])[0], tables.shape)


def accelerated(step, log_p: torch.Tensor, tolerance: float, max_reads: int) -> FixedPoint:
    """Where the accelerated iteration of one map, of a vector of log-probabilities, ends."""
    iteration = Acceleration(log_p[None, :], tolerance, max_reads)
    while iteration.running:
        iteration.receive(step(iteration.z[0])[None, :])
    return iteration.ends[0]


LARGE = [(600, 500), (70, 70, 60)]
