"""How much the blanks of a text depend on each other: the mutual information of every pair,
from the pair's derived joint.

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
from dataclasses import dataclass
from html import escape
from itertools import combinations
from math import comb, exp, isnan
from os import PathLike
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from unmask.common.batches import grouped
from unmask.common.cloze import Cloze, blanked, cloze_of_ids, whole_text
from unmask.common.errors import InputError, argument_name
from unmask.common.results import Result
from unmask.common.texts import for_each
from unmask.joints.constructions.construction import Construction
from unmask.joints.deriving import derive_blocks
from unmask.joints.joint import Joint, mutual_information
from unmask.joints.registry import DEFAULT_OF_DEPENDENCE, named
from unmask.models.conditional_model import ConditionalModel
from unmask.models.first_look import look_at_first
from unmask.models.load import Model, as_model
from unmask.models.masked_lm import MaskedLM
from unmask.models.text.alphabet import Alphabet
from unmask.models.text.blanks import cloze_of
from unmask.models.text.text_tokenizer import refuse_hopeless, shortened
from unmask.runs.progress import Enough, Progress
from unmask.tables.candidate_scores import NEIGHBOURS, likely_tokens, score_passes
from unmask.tables.conditionals import regular_tokens
from unmask.tables.default_effort import SMALL_VOCABULARY
from unmask.tables.joint_limits import MAX_PASSES
from unmask.tables.unary import pass_count, tables_of
from unmask.verbs.answers.blanked_text import allowed_tokens
from unmask.verbs.answers.plots import figure_path, save_figure

if TYPE_CHECKING:
    import pandas

    from unmask.common.figures import Figure

Others = Literal["masked", "text"]
Look = Callable[[int, int, Joint], None]
LARGEST_DOUBLE = 2048
"""Tables of more candidates keep the model's own precision: float64 would take gigabytes."""
PAIRS_AT_ONCE, CELLS_AT_ONCE = 16, 2**22
"""Pairs whose tables are made and solved together, and the most cells of one of their two
tables, over all of them.
"""
FEWEST_ADVISED = 8
"""Candidates per position below which the advice is to measure fewer positions."""
DEFAULT_PASSES = 6000
FEWEST, MOST = 32, 256
"""The candidates of a default answer: as many as keep it within DEFAULT_PASSES, but never fewer
or more than these.
"""


class PairMatrix(NamedTuple):
    """Mutual information of each pair in nats, NaN where the model raised `Enough` before; mass
    in the candidate sets; passes.

    Both are symmetric, in float64, and zero on the diagonal.
    """

    information: Float[Tensor, "k k"]
    mass: Float[Tensor, "k k"]
    passes: int


def pair_matrix(
    model: ConditionalModel,
    cloze: Cloze,
    candidates: int,
    others: Others = "masked",
    construction: Construction | None = None,
    progress: Progress | None = None,
    allowed: Tensor | None = None,
    look: Look | None = None,
) -> PairMatrix:
    """The mutual information of every pair of the cloze's block; `others` are blanks or the
    cloze's gold tokens.

    candidates   how many tokens of each position, at most all that are allowed: one set per
                 position if the others are masked, else one for each pair
    construction   of the joint of each pair [default: pseudo_gibbs]
    allowed      the token ids allowed at a position; by default all regular ones
    look         called with the places a < b of each pair and the joint that its number is of
    """
    k = len(cloze.block)
    allowed = regular_tokens(model) if allowed is None else allowed
    if construction is None:
        construction = named(DEFAULT_OF_DEPENDENCE)
    rules = [construction]
    size = min(candidates, len(allowed))
    neighbours = min(NEIGHBOURS, max(8, size // 4), len(allowed))
    sets, done, per_pair = (
        [allowed] * k if size == len(allowed) else None,
        0,
        pass_count([size, size]),
    )
    if sets is None and others == "masked":
        sets, done = (
            list(likely_tokens(model, cloze, size, allowed, neighbours)),
            score_passes(k, neighbours),
        )
    elif sets is None:
        per_pair += score_passes(2, neighbours)
    pairs = list(combinations(range(k), 2))
    total = done + per_pair * len(pairs)
    information, mass = torch.full((2, k, k), torch.nan, dtype=torch.float64).unbind()
    for matrix in (information, mass):
        matrix.fill_diagonal_(0)
    dtype = None if size > LARGEST_DOUBLE else torch.float64
    at_once = max(1, min(PAIRS_AT_ONCE, CELLS_AT_ONCE // size**2))

    def report(passes: int) -> None:
        if progress:
            progress(min(passes, total), total, "passes of the model")

    def measure(group: list[tuple[int, int]]) -> None:
        clozes = [pair_cloze(cloze, a, b, others) for a, b in group]
        axes: list[Sequence[Tensor]] = []
        before = done
        for (a, b), pair in zip(group, clozes, strict=True):
            axes.append(
                likely_tokens(model, pair, size, allowed, neighbours)
                if sets is None
                else [sets[a], sets[b]]
            )
            before += per_pair - pass_count([size, size])
            report(before)
        blocks = tables_of(
            model,
            clozes,
            axes,
            dtype,
            lambda part, *_: report(before + part),
            supports=[[allowed] * 2] * len(clozes),
        )
        for members in grouped(blocks, lambda tables: tables.shape):
            for i, (joint,) in zip(
                members, derive_blocks([blocks[i] for i in members], rules), strict=True
            ):
                a, b = group[i]
                information[a, b] = information[b, a] = max(mutual_information(joint), 0.0)
                mass[a, b] = mass[b, a] = exp(blocks[i].log_mass)
                if look:
                    look(a, b, joint)

    report(0)
    try:
        for start in range(0, len(pairs), at_once):
            measure(group := pairs[start : start + at_once])
            done += per_pair * len(group)
            report(done)
    except Enough:
        if bool(information.isnan().sum() == k * (k - 1)):
            raise
    return PairMatrix(information, mass, done)


def pair_cloze(cloze: Cloze, a: int, b: int, others: Others) -> Cloze:
    """The text with positions a and b of the block blank, and the block's other positions as
    `others` says.
    """
    block = (cloze.block[a], cloze.block[b])
    if cloze.gold is None or others == "masked":
        gold = None if cloze.gold is None else (cloze.gold[a], cloze.gold[b])
        return cloze_of_ids(cloze.ids, block, gold)
    return blanked(whole_text(cloze), block, cloze.ids[block[0]])


@dataclass(frozen=True, repr=False)
class Dependence(Result):
    """The mutual information of every pair of positions of a text, in nats; see the module's text.

    text, tokens  the text, and the token at each position: a token of the text, or [MASK] at a
                  blank
    positions     where, in tokens of the model, its start token being 0
    matrix        k x k, symmetric, zero on the diagonal; NaN for pairs left when the model
                  raised `Enough`
    mass          k x k: share of the pair's product joint that lies in the candidate sets
    construction  how the joint of each pair was derived
    candidates    how many tokens of each position were considered; `passes`: forward passes in all
    others        the other positions while a pair is measured: "masked" or "text"

    >>> dependence = unmask.dependence("The [MASK] [MASK] at the casino.", candidates=16)
    >>> dependence.positions, bool(dependence.matrix[0, 1] > 0)
    ((2, 3), True)
    """

    KEYS: ClassVar[tuple[str, ...]] = (
        *("text", "tokens", "positions", "construction", "others", "candidates", "passes"),
        *("matrix=matrix_rows", "candidates_mass=mass_rows"),
    )

    text: str
    tokens: tuple[str, ...]
    positions: tuple[int, ...]
    matrix: Float[Tensor, "k k"]
    mass: Float[Tensor, "k k"]
    construction: str
    others: Others
    candidates: int
    passes: int

    @property
    def least_mass(self) -> float:
        """The smallest share of a pair's product joint that the candidate sets hold."""
        return min(float(self.mass[i, j]) for i, j, _ in self.pairs())

    def pairs(self) -> list[tuple[int, int, float]]:
        """Places i < j in `positions` and their mutual information, the most dependent pair
        first, of the pairs measured.
        """
        pairs = [
            (i, j, float(self.matrix[i, j])) for i, j in combinations(range(len(self.tokens)), 2)
        ]
        return sorted((pair for pair in pairs if not isnan(pair[2])), key=lambda pair: -pair[2])

    @property
    def matrix_rows(self) -> list[list[float | None]]:
        """`matrix`; None on the diagonal and for pairs not measured."""
        return _rows(self.matrix)

    @property
    def mass_rows(self) -> list[list[float | None]]:
        """`mass`, likewise."""
        return _rows(self.mass)

    def to_frame(self) -> pandas.DataFrame:
        """The matrix with rows and columns named by position and token."""
        import pandas

        names = self.names()
        return pandas.DataFrame(self.matrix.numpy(), index=names, columns=names)

    def names(self) -> list[str]:
        """Position and token of each row."""
        return [
            f"{position} {token.strip()}"
            for position, token in zip(self.positions, self.tokens, strict=True)
        ]

    def figure(self) -> Figure:
        """The matrix as a heat map."""
        from unmask.verbs.answers.plots import dependence_map

        return dependence_map(self)

    def __repr__(self) -> str:
        i, j, most = self.pairs()[0]
        names = self.names()
        return (
            f"Dependence({len(names)} positions, most {most:.3f} nats between {names[i]!r} and"
            f" {names[j]!r})"
        )

    def _repr_html_(self) -> str:
        return (
            f"<p>{escape(self.text)}: mutual information in"
            f" nats</p>{self.to_frame().map('{:.3f}'.format).to_html()}"
        )


def dependences(
    texts: Sequence[str],
    model: Model,
    positions: Sequence[int] | None,
    construction: Construction | None,
    others: Others | None,
    candidates: int | None,
    alphabet: Alphabet,
    figure: str | PathLike[str] | None,
    force: bool,
    progress: Progress | None,
    look: Look | None = None,
) -> Iterator[Dependence]:
    """The answers of `dependence`, one by one; everything is checked before the first. `look`:
    see `pair_matrix`.
    """
    if construction is None:
        construction = named(DEFAULT_OF_DEPENDENCE)
    figure_file = figure_path(figure, len(texts), (model, alphabet))
    lm = as_model(model)
    allowed = allowed_tokens(lm, alphabet)
    if len(allowed) < 2:
        raise InputError(
            "one token lets nothing vary, and every dependence would be 0",
            use=f"give two or more ({argument_name('alphabet')})",
        )

    def read(text: str) -> tuple[Cloze, int]:
        cloze = _cloze(lm, text, positions, others)
        return cloze, _size(len(allowed), len(cloze.block), candidates, alphabet is not None, force)

    clozes, sizes = zip(*for_each(texts, read), strict=True)
    look_at_first(lm, (whole_text(cloze) for cloze in clozes))
    for number, (text, cloze, size) in enumerate(zip(texts, clozes, sizes, strict=True), 1):
        context: Others = others or ("masked" if cloze.gold is None else "text")
        pairs = pair_matrix(
            lm,
            cloze,
            size,
            context,
            construction,
            progress if len(texts) == 1 else None,
            allowed,
            look,
        )
        tokens = tuple(lm.words.tokens(cloze.gold or [cloze.ids[p] for p in cloze.block]))
        answer = Dependence(
            text,
            tokens,
            cloze.block,
            pairs.information,
            pairs.mass,
            construction.name,
            context,
            size,
            pairs.passes,
        )
        if progress and len(texts) > 1:
            progress(number, len(texts), "texts")
        yield answer
        save_figure(answer.figure, figure_file)


def _cloze(
    model: MaskedLM, text: str, positions: Sequence[int] | None, others: str | None
) -> Cloze:
    """The positions to be measured as a block: the blanks, or those named, or all regular ones
    of a whole text.
    """
    refuse_hopeless(text, model.max_length)
    if positions is None and model.mask_id not in (ids := model.words.encode(text)):
        positions = [t for t, token in enumerate(ids) if token not in model.special_ids]
    cloze = cloze_of(model.words, text, positions, max_length=model.max_length)
    if len(cloze.block) < 2:
        what = "blank" if cloze.gold is None else "known token to measure"
        raise InputError(
            f"the text {shortened(text)} has one {what}: dependence is between two or more, give"
            " another"
        )
    if others == "text" and cloze.gold is None:
        raise InputError(
            "'text' needs a whole text, and this one has blanks",
            argument="others",
            use="leave it out, or write words in the blanks",
        )
    return cloze


def _size(allowed: int, sites: int, candidates: int | None, alphabet: bool, force: bool) -> int:
    """How many candidates each position has; raises if they need more than MAX_PASSES passes,
    unless `force`.
    """
    pairs = comb(sites, 2)
    fits = MAX_PASSES // (2 * pairs) - 1
    size = allowed
    if candidates is not None:
        size = min(candidates, allowed)
    elif allowed > SMALL_VOCABULARY:
        size = min(
            allowed,
            max(1, fits) if alphabet else min(MOST, max(FEWEST, DEFAULT_PASSES // (2 * pairs))),
        )
    passes = pairs * pass_count([size, size])
    if not force and passes > MAX_PASSES:
        force_it = argument_name("force", True)
        if fits >= FEWEST_ADVISED:
            advice = f"use {argument_name('candidates', fits)} or fewer, or {force_it}"
        else:
            advice = f"measure fewer positions, or use {force_it}"
        grid = f"{pairs:,} pairs of positions with {size:,} x {size:,} candidates"
        raise InputError(
            f"{grid} need {passes:,} passes of the model (limit {MAX_PASSES:,}): {advice}"
        )
    return size


def _rows(matrix: Tensor) -> list[list[float | None]]:
    return [
        [None if i == j or isnan(value) else value for j, value in enumerate(row)]
        for i, row in enumerate(matrix.tolist())
    ]
