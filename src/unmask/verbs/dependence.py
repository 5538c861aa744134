"""`dependence`: how much the blanks, or the tokens, of a text depend on each other.

    D[a, b] = I(x_a; x_b | context)   in nats, of every pair of positions

`unmask.joints.pair_information` says what the context is, and computes D.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb, isnan, nan
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, cast

from annotated_types import Interval

from unmask.common.border.calls import checked
from unmask.common.border.marks import Written
from unmask.common.cloze import Cloze, Others, whole_text
from unmask.common.counting import Places
from unmask.common.errors import InputError, argument_name
from unmask.common.excerpts import around_blanks
from unmask.common.figure_files import figure_path, save_figure
from unmask.common.formats import nats, percent_at_least
from unmask.common.result_tables import Column, Table
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
    from unmask.joints.pair_information import Look, PairMatrix
    from unmask.models.masked_lm import MaskedLM

USUAL_PASSES = 6000
"""A default answer has as many candidates as take this many passes, within the two bounds below."""
FEWEST_CANDIDATES = 32
MOST_CANDIDATES = 256
FEWEST_SUGGESTED = 8
"""With fewer candidates than this a number says little: fewer positions are suggested instead."""
FEW = 0.5
"""Candidates that hold less than this share of a pair's product joint are reported as few."""
WIDEST_MATRIX = 10
"""Positions whose matrix fits into 80 columns; of more the strongest pairs are listed."""
MOST_LISTED = 20
MOST_LABELLED = 16
"""Positions of a heat map whose cells have their numbers in them."""


@dataclass(frozen=True, repr=False)
class Dependence(Result):
    """The mutual information of every pair of positions of a text, in nats; see the module's text.

    text, tokens  the text, and the token at each position: a token of the text, or [MASK] at a
                  blank
    positions     where: tokens of the text, counted from 1 without the start tokens
    matrix        k x k, symmetric, zero on the diagonal; NaN for pairs not measured yet, or left
                  when the model raised `Enough`
    mass          k x k: share of the pair's product joint that lies in the candidate sets
    construction  how the joint of each pair was derived
    candidates    how many tokens of each position were considered; `passes`: forward passes so far
    others        the other positions while a pair is measured: "masked" or "text"
    all_tokens    whether the candidates are all tokens that may stand at a position

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
    all_tokens: bool

    # ---- numbers ----

    @property
    def least_mass(self) -> float:
        """The smallest share of a pair's product joint that the candidate sets hold."""
        return min(float(self.mass[i, j]) for i, j, _ in self.pairs())

    def pairs(self) -> list[tuple[int, int, float]]:
        """Indices i < j into `positions` and their mutual information, the most dependent pair
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
        from unmask.common.lazy import pandas

        names = self.names()
        return pandas.DataFrame(self.matrix.numpy(), index=names, columns=names)

    def names(self) -> list[str]:
        """Position and token of each row."""
        rows = zip(self.positions, self.tokens, strict=True)
        return [f"{position} {token.strip()}" for position, token in rows]

    def __repr__(self) -> str:
        i, j, most = self.pairs()[0]
        names = self.names()
        return (
            f"Dependence({len(names)} positions, most {most:.3f} nats between {names[i]!r} and"
            f" {names[j]!r})"
        )

    # ---- what a person sees ----

    @property
    def heading(self) -> str:
        """The text."""
        return self.text

    def about(self) -> list[str]:
        """What the numbers are, and how much of the joints the candidates hold."""
        grid = f"{self.candidates:,} x {self.candidates:,} tokens"
        held = percent_at_least(self.least_mass)
        return [
            f"mutual information of each pair (nats), {self._beside('blanks')};",
            f"{self.construction} joints; {grid} hold at least {held} of a product joint",
        ]

    def tables(self) -> list[Table]:
        """The matrix, or of many positions the strongest pairs."""
        if len(self.positions) <= WIDEST_MATRIX:
            return [self._matrix_table()]
        return [self._strongest_pairs()]

    def verdict(self) -> list[str]:
        """Whether pairs are missing, and whether the candidates hold little."""
        sentences = []
        measured = len(self.pairs())
        count = comb(len(self.positions), 2)
        if measured < count:
            sentences.append(f"{measured:,} of {count:,} pairs are measured.")
        if self.least_mass < FEW and not self.all_tokens:
            sentences.append(
                "Where these tokens hold little, a number is about them only: consider more."
            )
        return sentences

    def figure(self) -> Figure:
        """The matrix as a heat map; numbers that round to 0.00 are not written in their cells."""
        import torch

        from unmask.common.figures import PowerNorm, heat_map

        names = self.names()
        k = len(names)
        side = min(14.0, max(4.6, 2.2 + 0.46 * k))  # inches
        most = max(float(self.matrix.nan_to_num().max()), 1e-12)  # the scale needs a range
        colours = {"cmap": "Blues", "norm": PowerNorm(0.5, 0, most)}
        text = around_blanks(self.text, int(11 * side))  # about 11 characters in an inch
        figure = heat_map(
            self.matrix.clone().fill_diagonal_(torch.nan).numpy(),
            names,
            names,
            title=f"{text}\n{self.construction} joint of each pair, {self._beside('positions')}",
            label="mutual information (nats)",
            size=(side + 0.8, side),
            **colours,
        )
        if k <= MOST_LABELLED:
            self._label_cells(figure, most)
        return figure

    def _beside(self, what: str) -> str:
        """What stands at the other positions, which are called `what`."""
        if self.others == "masked":
            return f"the other {what} masked"
        return "the other tokens as they stand"

    def _matrix_table(self) -> Table:
        """A row and a column for each position."""
        columns = [Column("token", text=True)]
        columns += [Column(str(position), show=nats) for position in self.positions]
        rows = zip(self.names(), self.matrix_rows, strict=True)
        cells = [[name, *numbers] for name, numbers in rows]
        return Table(columns, cells)

    def _strongest_pairs(self) -> Table:
        """A row for each of the most dependent pairs."""
        names = self.names()
        pairs = self.pairs()
        rows = [[f"{names[i]} - {names[j]}", value] for i, j, value in pairs[:MOST_LISTED]]
        columns = [Column("pair", text=True), Column("nats", show=nats)]
        note = f"the {len(rows)} strongest of {len(pairs)} pairs; JSON and the figure have all"
        return Table(columns, rows, notes=[note])

    def _label_cells(self, figure: Figure, most: float) -> None:
        """Write the numbers in the cells of the heat map; `most` is the darkest."""
        panel = figure.axes[0]  # the second one has the colours
        for i, j, value in self.pairs():
            if value < 0.005:
                break  # all that follow are smaller
            colour = "white" if value > most / 3 else "black"  # readable on the cell's blue
            style: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 7}
            panel.text(j, i, f"{value:.2f}", color=colour, **style)
            panel.text(i, j, f"{value:.2f}", color=colour, **style)


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
    partial: Callable[[Dependence], None] | None = None,
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
        partial: Called with the pairs of a text that are measured so far.

    Returns:
        A `Dependence`; of a list of texts, or of a file, a list of them.

    >>> unmask.dependence("The [MASK] [MASK] at the casino.", candidates=16).tokens
    ('[MASK]', '[MASK]')
    """
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
        partial=partial,
    )
    for answer in answers:
        yield answer
        save_figure(answer.figure, figure_file)


class _Question(NamedTuple):
    """What is asked about a text.

    cloze         the positions to be measured are its block
    start         how many start tokens the text has
    others        what stands at the other positions while a pair is measured
    candidates    how many tokens of each position are considered
    all_tokens    whether these are all that may stand there
    """

    text: str
    cloze: Cloze
    start: int
    others: Others
    candidates: int = 0
    all_tokens: bool = False


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
    partial: Callable[[Dependence], None] | None = None,
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

    rule = named(DEFAULT_OF_DEPENDENCE) if construction is None else construction
    lm = as_model(model)
    allowed = _allowed_tokens(lm, alphabet)

    def read(text: str) -> _Question:
        question = _read_text(lm, text, positions, others)
        sites = len(question.cloze.block)
        size = _candidates_of(sites, len(allowed), candidates, alphabet is not None)
        if not force:
            _refuse_many_passes(sites, size)
        return question._replace(candidates=size, all_tokens=size == len(allowed))

    questions = for_each(texts, read)
    look_at_first(lm, (whole_text(question.cloze) for question in questions))
    # Of one text its passes are the progress, of several the texts that are done.
    of_passes = progress if len(texts) == 1 else None
    of_texts = progress if len(texts) > 1 else None
    for number, question in enumerate(questions, 1):
        pairs = pair_matrix(
            lm,
            question.cloze,
            candidates=question.candidates,
            others=question.others,
            construction=rule,
            progress=of_passes,
            allowed=allowed,
            look=look,
            partial=_answers_to(partial, lm, question, rule),
        )
        if of_texts:
            of_texts(number, len(texts), "texts")
        yield _answer(lm, question, rule, pairs)


def _answers_to(
    partial: Callable[[Dependence], None] | None,
    model: MaskedLM,
    question: _Question,
    rule: Construction,
) -> Callable[[PairMatrix], None] | None:
    """A function that makes results of the pairs so far, for the user's `partial`."""
    if partial is None:
        return None

    def show(pairs: PairMatrix) -> None:
        partial(_answer(model, question, rule, pairs))

    return show


def _answer(
    model: MaskedLM, question: _Question, rule: Construction, pairs: PairMatrix
) -> Dependence:
    """The result for a text."""
    cloze = question.cloze
    text_ids = whole_text(cloze)
    measured = [text_ids[position] for position in cloze.block]
    return Dependence(
        text=question.text,
        tokens=tuple(model.words.tokens(measured)),
        positions=tuple(position - question.start + 1 for position in cloze.block),
        matrix=pairs.information,
        mass=pairs.mass,
        construction=rule.name,
        others=question.others,
        candidates=question.candidates,
        passes=pairs.passes,
        all_tokens=question.all_tokens,
    )


def _allowed_tokens(model: MaskedLM, alphabet: Alphabet) -> Tensor:
    """Ids of the tokens that may stand at a position: the alphabet's, or all regular ones."""
    import torch

    from unmask.models.text.alphabet import letter_ids
    from unmask.tables.conditionals import regular_tokens

    letters = letter_ids(model, alphabet)
    if letters is None:
        return regular_tokens(model)
    if len(letters) < 2:
        raise InputError(
            "one token lets nothing vary, and every dependence would be 0",
            use=f"give two or more ({argument_name('alphabet')})",
        )
    return torch.tensor(letters, device=model.device)


def _read_text(
    model: MaskedLM, text: str, positions: Places | None, others: Others | None
) -> _Question:
    """A text, and as the block of its cloze what is measured: the blanks, or the positions that
    are named, or all regular tokens of a whole text. The number of candidates is still open.
    """
    from unmask.models.text.blanks import cloze_of
    from unmask.models.text.text_tokenizer import refuse_hopeless, shortened

    refuse_hopeless(text, model.max_length)
    tokens = model.words.tokens_of(text)
    start, stop = tokens.inside
    if positions is None and model.mask_id not in tokens.ids:
        positions = []
        for place, token in enumerate(tokens.ids[start:stop], 1):
            if token not in model.special_ids:
                positions.append(place)
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
    if others is None:
        others = "masked" if is_blanked else "text"
    return _Question(text=text, cloze=cloze, start=start, others=others)


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
    for row in matrix.clone().fill_diagonal_(nan).tolist():
        known = [None if isnan(value) else value for value in row]
        rows.append(known)
    return rows
