"""The mutual information of every pair of positions of a text, from the pair's derived joint.

    D[a, b] = I(x_a; x_b | context) = sum_{x, y} mu(x, y) log( mu(x, y) / (mu_a(x) mu_b(y)) )
            in nats

mu is the joint that a construction derives from the model's conditionals of the two positions
over their candidate sets: D is given that both tokens lie there, and `mass` says how much of
the product joint does. The context is the text around the pair, and the other positions that
are measured are either

    masked   as blanks: dependence that other blanks carry from a to b counts, and nothing but
             the text's fixed part is used
    text     as in the whole text: the dependence of a and b once everything else is known

If the model's conditionals come from one joint p, D is I_p(x_a; x_b | visible) in the first
case and I_p(x_a; x_b | all the rest as in the text) in the second. The two are different
quantities: under strong coupling the second falls to zero, because the rest determines both
tokens, while the first grows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from math import exp, nan
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.common.batches import grouped
from unmask.common.cloze import Cloze, Others, pair_cloze
from unmask.joints.constructions.construction import Construction
from unmask.joints.deriving import derive_blocks
from unmask.joints.joint import Joint, mutual_information
from unmask.joints.registry import DEFAULT_OF_DEPENDENCE, named
from unmask.models.conditional_model import ConditionalModel
from unmask.runs.progress import Enough, Progress
from unmask.tables.candidate_scores import NEIGHBOURS, likely_tokens, score_passes
from unmask.tables.conditionals import regular_tokens
from unmask.tables.unary import Tables, pass_count, tables_of

Look = Callable[[int, int, Joint], None]
LARGEST_DOUBLE = 2048
"""Tables of more candidates keep the model's own precision: float64 would take gigabytes."""
PAIRS_AT_ONCE = {"cpu": 4, "cuda": 16}
"""The most pairs whose tables are made and solved together. Work that is stopped loses the pairs
that are not done; on a CPU larger groups are not faster.
"""
CELLS_AT_ONCE = 2**22
"""The most cells of one of the two tables of such pairs, over all of them."""


class PairMatrix(NamedTuple):
    """Numbers of every pair of k positions: symmetric, in float64, and zero on the diagonal.

    information   mutual information in nats; NaN where the model raised `Enough` before
    mass          share of the pair's product joint that lies in the candidate sets; NaN likewise
    passes        of the model, in all
    """

    information: Float[Tensor, "k k"]
    mass: Float[Tensor, "k k"]
    passes: int


class CandidateSets(NamedTuple):
    """The tokens that are considered at each position.

    size         how many
    shared       the set of each position, for all of its pairs; None where a pair has its own
    passes       of the model that the shared sets took
    pair_passes  of the model that the own sets of one pair take; 0 where sets are shared
    neighbours   how many likely tokens of a position rank the tokens of the others
    """

    size: int
    shared: list[Tensor] | None
    passes: int
    pair_passes: int
    neighbours: int


def pair_matrix(
    model: ConditionalModel,
    cloze: Cloze,
    candidates: int,
    others: Others = "masked",
    construction: Construction | None = None,
    progress: Progress | None = None,
    allowed: Int[Tensor, " m"] | None = None,
    look: Look | None = None,
    partial: Callable[[PairMatrix], None] | None = None,
) -> PairMatrix:
    """The mutual information of every pair of the cloze's block.

    candidates     how many tokens of each position are considered, at most all that are allowed
    others         whether the block's other positions are blanks, or the cloze's gold tokens
    construction   of the joint of each pair [default: pseudo_gibbs]
    allowed        the token ids allowed at a position [default: all regular ones]
    look           called with the places a < b of each pair and the joint that its number is of
    partial        called with the numbers so far, each time that some pairs are measured
    """
    if allowed is None:
        allowed = regular_tokens(model)
    if construction is None:
        construction = named(DEFAULT_OF_DEPENDENCE)
    k = len(cloze.block)
    pairs = list(combinations(range(k), 2))
    sets = _candidate_sets(model, cloze, min(candidates, len(allowed)), others, allowed)
    size = sets.size
    passes_per_pair = sets.pair_passes + pass_count([size, size])
    total = sets.passes + passes_per_pair * len(pairs)
    done = sets.passes

    information = torch.full((k, k), nan, dtype=torch.float64).fill_diagonal_(0)
    mass = information.clone()

    report = _passes_of(progress, total)
    report(0)
    most = PAIRS_AT_ONCE.get(model.device.type, PAIRS_AT_ONCE["cuda"])
    at_once = max(1, min(most, CELLS_AT_ONCE // size**2))
    try:
        for start in range(0, len(pairs), at_once):
            group = pairs[start : start + at_once]
            blocks = _tables_of_pairs(model, cloze, group, sets, others, allowed, done, report)
            for place, joint in _joints_in_turn(blocks, construction):
                a, b = group[place]
                # Rounding may leave a number just below 0
                information[a, b] = information[b, a] = max(mutual_information(joint), 0.0)
                mass[a, b] = mass[b, a] = exp(blocks[place].log_mass)
                if look:
                    look(a, b, joint)
            done += passes_per_pair * len(group)
            report(done)
            if partial:
                partial(PairMatrix(information.clone(), mass.clone(), done))
    except Enough:
        missing = int(information.isnan().sum())
        if missing == 2 * len(pairs):  # not a single pair was measured
            raise
    return PairMatrix(information=information, mass=mass, passes=done)


def _passes_of(progress: Progress | None, total: int) -> Callable[[int], None]:
    """A function that reports how many of `total` passes are done."""

    def report(passes: int) -> None:
        if progress:
            progress(min(passes, total), total, "passes of the model")

    return report


def _joints_in_turn(
    blocks: Sequence[Tables], construction: Construction
) -> Iterator[tuple[int, Joint]]:
    """The joint of each block with the block's place; blocks of one shape are solved together."""
    for members in grouped(blocks, lambda tables: tables.shape):
        solved = derive_blocks([blocks[place] for place in members], [construction])
        for place, (joint,) in zip(members, solved, strict=True):
            yield place, joint


def _candidate_sets(
    model: ConditionalModel,
    cloze: Cloze,
    size: int,
    others: Others,
    allowed: Int[Tensor, " m"],
) -> CandidateSets:
    """The sets of `size` tokens: all that are allowed, the likely ones of each position, or, where
    the other positions have their tokens, sets that each pair gets when it is measured.
    """
    k = len(cloze.block)
    neighbours = min(NEIGHBOURS, max(8, size // 4), len(allowed))
    shared: list[Tensor] | None = None
    passes = 0
    pair_passes = 0
    if size == len(allowed):
        shared = [allowed] * k
    elif others == "masked":
        shared = list(likely_tokens(model, cloze, size, allowed, neighbours))
        passes = score_passes(k, neighbours)
    else:  # what is likely at a position depends on which other one is blank
        pair_passes = score_passes(2, neighbours)
    return CandidateSets(
        size=size, shared=shared, passes=passes, pair_passes=pair_passes, neighbours=neighbours
    )


def _tables_of_pairs(
    model: ConditionalModel,
    cloze: Cloze,
    group: Sequence[tuple[int, int]],
    sets: CandidateSets,
    others: Others,
    allowed: Int[Tensor, " m"],
    done: int,
    report: Callable[[int], None],
) -> list[Tables]:
    """The tables of some pairs of the block; `report` gets the passes so far, of which `done` were
    made before.
    """
    clozes = [pair_cloze(cloze, a, b, others) for a, b in group]
    axes: list[Sequence[Tensor]] = []
    for (a, b), pair in zip(group, clozes, strict=True):
        if sets.shared is None:
            axes.append(likely_tokens(model, pair, sets.size, allowed, sets.neighbours))
        else:
            axes.append([sets.shared[a], sets.shared[b]])
        done += sets.pair_passes
        report(done)
    dtype: torch.dtype | None = torch.float64
    if sets.size > LARGEST_DOUBLE:
        dtype = None
    return tables_of(
        model,
        clozes,
        axes,
        dtype,
        progress=lambda passes, *_: report(done + passes),
        supports=[[allowed, allowed]] * len(clozes),
    )
