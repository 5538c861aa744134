"""`dependence`: how much the blanks, or the tokens, of a text depend on each other.

    D[a, b] = I(x_a; x_b | context)   in nats, of every pair of positions

`unmask.joints.pair_information` says what the context is, and computes D.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import combinations
from math import comb, isnan
from typing import TYPE_CHECKING, Annotated, ClassVar, cast

from annotated_types import Interval

from unmask.common.border.calls import checked
from unmask.common.border.marks import Written
from unmask.common.cloze import Cloze, Others, whole_text
from unmask.common.counting import Places
from unmask.common.errors import InputError, argument_name
from unmask.common.results import Result
from unmask.joints.constructions.construction import Construction, Rule
from unmask.models.load import Model
from unmask.runs.progress import Progress
from unmask.verbs import Alphabet, Force, PathLike, Positions, Texts, one_or_many

if TYPE_CHECKING:
    import pandas
    from jaxtyping import Float
    from torch import Tensor

    from unmask.common.figures import Figure
    from unmask.joints.pair_information import Look
    from unmask.models.masked_lm import MaskedLM

USUAL_PASSES = 6000
"""A default answer has as many candidates as take this many passes, within the two bounds below."""
FEWEST_CANDIDATES = 32
MOST_CANDIDATES = 256
FEWEST_SUGGESTED = 8
"""With fewer candidates than this a number says little: fewer positions are suggested instead."""


@dataclass(frozen=True, repr=False)
class Dependence(Result):
    """The mutual information of every pair of positions of a text, in nats; see the module's text.

    text, tokens  the text, and the token at each position: a token of the text, or [MASK] at a
                  blank
    positions     where: tokens of the text, counted from 1 without the start tokens
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
        "text",
        "tokens",
        "positions",
        "construction",
        "others",
        "candidates",
        "passes",
        "matrix=matrix_rows",
        "candidates_mass=mass_rows",
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
        all_pairs = combinations(range(len(self.tokens)), 2)
        numbers = [(i, j, float(self.matrix[i, j])) for i, j in all_pairs]
        measured = [pair for pair in numbers if not isnan(pair[2])]
        return sorted(measured, key=lambda pair: -pair[2])

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
        rows = zip(self.positions, self.tokens, strict=True)
        return [f"{position} {token.strip()}" for position, token in rows]

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
        table = self.to_frame().map("{:.3f}".format).to_html()
        return f"<p>{escape(self.text)}: mutual information in nats</p>{table}"


@one_or_many
@checked
def dependence(
    text: Texts,
    model: Model = None,
    *,
    positions: Positions = None,
    construction: Rule | None = None,
    others: Others | None = None,
    candidates: Annotated[
        Annotated[int, Interval(ge=2, le=10**7)] | None, Written(short="-n")
    ] = None,
    alphabet: Alphabet = None,
    figure: PathLike | None = None,
    force: Force = False,
    progress: Progress | None = None,
) -> Iterator[Dependence]:
    """Measure how much blanks, or tokens, depend on each other: the mutual information of every
    pair.

    One text gives one answer, a list of texts or a file (in Python a Path) a list of them.

    Parameters:
        text: Text with [MASK] at two blanks or more, or a whole text.
        positions: Which tokens of a whole text, such as 2,4-6 (the first is 1), or all [default:
            all but special ones].
        construction: How the joint of each pair is derived: a construction of `fill` [default:
            pseudo_gibbs].
        others: What stands at the other positions while a pair is measured: masked, or the text
            itself (text) [default: masked for blanks, text for a whole text].
        candidates: Tokens to consider at each position, two or more [default: 32 to 256, by how
            many positions].
        figure: Draw the matrix as a heat map to this file (png, pdf, svg).

    Returns:
        A `Dependence`; of a list of texts, or of a file, a list of them.

    >>> unmask.dependence("The [MASK] [MASK] at the casino.", candidates=16).tokens
    ('[MASK]', '[MASK]')
    """
    from unmask.verbs.answers.plots import figure_path, save_figure

    figure_file = figure_path(figure, len(text), (model, alphabet))
    answers = dependences(
        text,
        model,
        positions=positions,
        construction=cast("Construction | None", construction),
        others=others,
        candidates=candidates,
        alphabet=alphabet,
        force=force,
        progress=progress,
    )
    for answer in answers:
        yield answer
        save_figure(answer.figure, figure_file)


def dependences(
    texts: Sequence[str],
    model: Model,
    *,
    positions: Places | None,
    construction: Construction | None,
    others: Others | None,
    candidates: int | None,
    alphabet: Alphabet,
    force: bool,
    progress: Progress | None,
    look: Look | None = None,
) -> Iterator[Dependence]:
    """The answers of `dependence`, one by one; everything is checked before the first. `look`:
    see `pair_matrix`.
    """
    from unmask.common.texts import for_each
    from unmask.joints.pair_information import pair_matrix
    from unmask.joints.registry import DEFAULT_OF_DEPENDENCE, named
    from unmask.models.first_look import look_at_first
    from unmask.models.load import as_model
    from unmask.tables.named_tokens import allowed_tokens

    rule = named(DEFAULT_OF_DEPENDENCE) if construction is None else construction
    lm = as_model(model)
    allowed = allowed_tokens(lm, alphabet)
    if len(allowed) < 2:
        raise InputError(
            "one token lets nothing vary, and every dependence would be 0",
            use=f"give two or more ({argument_name('alphabet')})",
        )

    def read(text: str) -> tuple[Cloze, int]:
        cloze = _measured_cloze(lm, text, positions, others)
        sites = len(cloze.block)
        size = _candidates_of(sites, len(allowed), candidates, alphabet is not None)
        if not force:
            _refuse_many_passes(sites, size)
        return cloze, size

    clozes, sizes = zip(*for_each(texts, read), strict=True)
    look_at_first(lm, (whole_text(cloze) for cloze in clozes))
    one_text = len(texts) == 1
    for number, (text, cloze, size) in enumerate(zip(texts, clozes, sizes, strict=True), 1):
        is_blanked = cloze.gold is None
        context = others
        if context is None:
            context = "masked" if is_blanked else "text"
        pairs = pair_matrix(
            lm,
            cloze,
            size,
            context,
            rule,
            progress if one_text else None,
            allowed,
            look,
        )
        measured = cloze.gold
        if measured is None:
            measured = [cloze.ids[position] for position in cloze.block]
        start, _ = lm.words.tokens_of(text).inside
        answer = Dependence(
            text=text,
            tokens=tuple(lm.words.tokens(measured)),
            positions=tuple(position - start + 1 for position in cloze.block),
            matrix=pairs.information,
            mass=pairs.mass,
            construction=rule.name,
            others=context,
            candidates=size,
            passes=pairs.passes,
        )
        if progress and not one_text:
            progress(number, len(texts), "texts")
        yield answer


def _measured_cloze(
    model: MaskedLM, text: str, positions: Places | None, others: Others | None
) -> Cloze:
    """The positions to be measured as a block: the blanks, or those named, or all regular ones
    of a whole text.
    """
    from unmask.models.text.blanks import cloze_of
    from unmask.models.text.text_tokenizer import refuse_hopeless, shortened

    refuse_hopeless(text, model.max_length)
    if positions is None:
        tokens = model.words.tokens_of(text)
        if model.mask_id not in tokens.ids:
            own = range(*tokens.inside)
            positions = [
                place for place, t in enumerate(own, 1) if tokens.ids[t] not in model.special_ids
            ]
    cloze = cloze_of(model.words, text, positions, max_length=model.max_length)
    is_blanked = cloze.gold is None
    if len(cloze.block) < 2:
        what = "blank" if is_blanked else "known token to measure"
        raise InputError(
            f"the text {shortened(text)} has one {what}: dependence is between two or more, give"
            " another"
        )
    if others == "text" and is_blanked:
        raise InputError(
            "'text' needs a whole text, and this one has blanks",
            argument="others",
            use="leave it out, or write words in the blanks",
        )
    return cloze


def _candidates_of(sites: int, allowed: int, candidates: int | None, has_alphabet: bool) -> int:
    """How many tokens of each position are considered.

    allowed        how many may stand there
    candidates     how many were asked for; None for the default
    has_alphabet   the user named the tokens that are allowed
    """
    from unmask.tables.default_effort import SMALL_VOCABULARY

    if candidates is not None:
        return min(candidates, allowed)
    if allowed <= SMALL_VOCABULARY:
        return allowed
    if has_alphabet:  # all that were named, as far as the passes reach
        return min(allowed, max(1, _most_candidates(sites)))
    usual = USUAL_PASSES // (2 * comb(sites, 2))
    return min(allowed, MOST_CANDIDATES, max(FEWEST_CANDIDATES, usual))


def _most_candidates(sites: int) -> int:
    """The most candidates n for which MAX_PASSES passes are enough: a pair takes 2 n + 1."""
    from unmask.tables.joint_limits import MAX_PASSES

    return MAX_PASSES // (2 * comb(sites, 2)) - 1


def _refuse_many_passes(sites: int, size: int) -> None:
    """Raise if all pairs of the sites need more than MAX_PASSES passes."""
    from unmask.tables.joint_limits import MAX_PASSES
    from unmask.tables.unary import pass_count

    pairs = comb(sites, 2)
    passes = pairs * pass_count([size, size])
    if passes <= MAX_PASSES:
        return
    fitting = _most_candidates(sites)
    force = argument_name("force", True)
    use = f"measure fewer positions, or use {force}"
    if fitting >= FEWEST_SUGGESTED:
        use = f"use {argument_name('candidates', fitting)} or fewer, or {force}"
    grid = f"{pairs:,} pairs of positions with {size:,} x {size:,} candidates"
    raise InputError(
        f"{grid} need {passes:,} passes of the model (limit {MAX_PASSES:,})",
        use=use,
    )


def _rows(matrix: Float[Tensor, "k k"]) -> list[list[float | None]]:
    """The rows of a matrix; None on the diagonal and for NaN."""
    rows: list[list[float | None]] = []
    for i, row in enumerate(matrix.tolist()):
        rows.append([None if i == j or isnan(value) else value for j, value in enumerate(row)])
    return rows
