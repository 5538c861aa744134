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
from unmask.common.border.marks import ShownType, Written
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
else:  # the class of a joint would load torch
    Look = Annotated[Callable, ShownType("Callable[[int, int, Joint], None]")]

USUAL_PASSES = 6000
"""The default number of candidates takes about this many passes for all pairs together. It is
never below FEWEST_CANDIDATES, and never above MOST_CANDIDATES.
"""
FEWEST_CANDIDATES = 32
MOST_CANDIDATES = 256
FEWEST_SUGGESTED = 8
"""An error suggests at least this many candidates. If even these take too many passes, it suggests
fewer positions: with fewer candidates a number says little.
"""
LITTLE_MASS = 0.5
"""The verdict warns if the candidates hold less than this share of a pair's product joint."""
WIDEST_MATRIX = 10
"""The most positions whose matrix fits into 80 columns. With more positions the table lists the
strongest pairs.
"""
MOST_LISTED = 20
"""Pairs in this list."""
MOST_LABELLED = 16
"""The most positions of a heat map that has numbers in its cells."""


@dataclass(frozen=True, repr=False)
class Dependence(Result):
    """The mutual information of every pair of positions of a text, in nats; see the module's text.

    text, tokens  the text, and the token at each position: a token of the text, or [MASK] at a
                  blank
    positions     where: tokens of the text, counted from 1 without the start tokens
    matrix        k x k, symmetric, zero on the diagonal. It is NaN for pairs that are not
                  measured: not yet, or never if the model raised `Enough` and gave no more passes
    mass          k x k: the share of the pair's product joint that lies in the candidate sets;
                  NaN for the same pairs
    construction  how the joint of each pair was derived
    others        the other positions while a pair is measured: "masked" or "text"
    candidates    how many tokens of each position were considered
    passes        forward passes of the model so far
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
        measured = self.pairs()  # the mass of all other pairs is NaN
        return min(float(self.mass[i, j]) for i, j, _ in measured)

    def pairs(self) -> list[tuple[int, int, float]]:
        """The pairs that are measured, the most dependent first: indices i < j into `positions`,
        and their mutual information.
        """
        all_pairs = combinations(range(len(self.tokens)), 2)
        numbers = [(i, j, float(self.matrix[i, j])) for i, j in all_pairs]
        measured = [pair for pair in numbers if not isnan(pair[2])]
        return sorted(measured, key=lambda pair: -pair[2])

    @property
    def matrix_rows(self) -> list[list[float | None]]:
        """The rows of `matrix`; None on the diagonal and for pairs that are not measured."""
        return _rows(self.matrix)

    @property
    def mass_rows(self) -> list[list[float | None]]:
        """The rows of `mass`; None on the diagonal and for pairs that are not measured."""
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
            f"mutual information of each pair (nats), {self._state_of_others('blanks')};",
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
        if self.least_mass < LITTLE_MASS and not self.all_tokens:
            sentences.append(
                "Where these tokens hold little, a number is about them only: consider more."
            )
        return sentences

    def figure(self) -> Figure:
        """The matrix as a heat map; numbers that round to 0.00 are not written in their cells."""
        import torch

        from unmask.common.figures import PowerNorm, heat_map

        names = self.names()
        side = 2.2 + 0.46 * len(names)  # inches: the labels, and each row
        side = min(14.0, max(4.6, side))
        text = around_blanks(self.text, int(11 * side))  # about 11 characters in an inch
        state = self._state_of_others("positions")
        cells = self.matrix.clone().fill_diagonal_(torch.nan)  # the diagonal is grey
        largest = max(float(self.matrix.nan_to_num().max()), 1e-12)  # the scale needs a range
        figure = heat_map(
            cells.numpy(),
            names,
            names,
            title=f"{text}\n{self.construction} joint of each pair, {state}",
            label="mutual information (nats)",
            size=(side + 0.8, side),
            cmap="Blues",
            # Gamma 0.5 is a square root: small numbers differ in colour, too.
            norm=PowerNorm(gamma=0.5, vmin=0, vmax=largest),
        )
        if len(names) <= MOST_LABELLED:
            self._label_cells(figure, largest)
        return figure

    def _state_of_others(self, called: str) -> str:
        """How the other positions stand while a pair is measured, in words.

        called   what the sentence calls these positions, if they are masked
        """
        if self.others == "masked":
            return f"the other {called} masked"
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

    def _label_cells(self, figure: Figure, largest: float) -> None:
        """Write the numbers in the cells of the heat map.

        largest   the number with the darkest colour
        """
        panel = figure.axes[0]  # the second one has the colours
        style: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 7}
        for i, j, value in self.pairs():
            if value < 0.005:  # it rounds to 0.00, and so do all that follow
                break
            is_dark = value > largest / 3  # on the square-root scale: beyond 0.58 of the blues
            colour = "white" if is_dark else "black"
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
    look: Look | None = None,
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
            itself (text); of two positions there are no others [default: masked for blanks, text
            for a whole text].
        candidates: Tokens to consider at each position, two or more [default: 32 to 256, by how
            many positions].
        figure: Draw the matrix as a heat map to this file (png, pdf, svg).
        partial: Called with the pairs of a text that are measured so far.
        look: Called with each pair that is measured, as two places in `positions` (the first is
            0), and the joint that its number is of.

    Returns:
        A `Dependence`; of a list of texts, or of a file, a list of them.

    >>> unmask.dependence("The [MASK] [MASK] at the casino.", candidates=16).tokens
    ('[MASK]', '[MASK]')
    """
    figure_file = figure_path(figure, texts=len(text), reads=(model, alphabet))
    answers = dependences(
        text,
        model,
        positions=positions,
        # `checked` has made an object of a name.
        construction=cast("Construction | None", construction),
        others=others,
        candidates=candidates,
        alphabet=alphabet,
        force=force,
        progress=progress,
        partial=partial,
        look=look,
    )
    for answer in answers:
        yield answer  # the caller has it before the figure is drawn
        save_figure(answer.figure, figure_file)


class _Question(NamedTuple):
    """What is asked about a text.

    cloze          the text; its block is the positions that are measured
    start_tokens   how many start tokens the text has
    others         what stands at the other positions while a pair is measured
    candidates     how many tokens of each position are considered
    all_tokens     whether these are all that may stand there
    """

    text: str
    cloze: Cloze
    start_tokens: int
    others: Others
    candidates: int
    all_tokens: bool


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
    """The answers of `dependence`, one by one; everything is checked before the first.

    look   called with each pair and its joint, as `pair_matrix` says
    """
    from unmask.common.texts import for_each
    from unmask.joints.pair_information import pair_matrix
    from unmask.joints.registry import DEFAULT_OF_DEPENDENCE, named
    from unmask.models.first_look import look_at_first
    from unmask.models.load import as_model

    rule = named(DEFAULT_OF_DEPENDENCE) if construction is None else construction
    lm = as_model(model)
    allowed = _allowed_tokens(lm, alphabet)

    def question_of(text: str) -> _Question:
        cloze, start_tokens = _read_text(lm, text, positions)
        others_here = _others_of(cloze, others)
        sites = len(cloze.block)
        size = _candidate_count(
            sites, n_allowed=len(allowed), asked=candidates, has_alphabet=alphabet is not None
        )
        if not force:
            _refuse_many_passes(sites, size)
        return _Question(
            text=text,
            cloze=cloze,
            start_tokens=start_tokens,
            others=others_here,
            candidates=size,
            all_tokens=size == len(allowed),
        )

    questions = for_each(texts, question_of)
    if others is not None:
        _refuse_others_without_effect(questions)
    look_at_first(lm, (whole_text(question.cloze) for question in questions))
    # One text reports its passes, several report how many texts are done.
    report_passes = progress if len(texts) == 1 else None
    report_texts = progress if len(texts) > 1 else None
    for number, question in enumerate(questions, 1):
        pairs = pair_matrix(
            lm,
            question.cloze,
            candidates=question.candidates,
            others=question.others,
            construction=rule,
            progress=report_passes,
            allowed=allowed,
            look=look,
            partial=_partial_of_matrix(partial, lm, question, rule),
        )
        if report_texts:
            report_texts(number, len(texts), "texts")
        yield _answer(lm, question, rule, pairs)


def _partial_of_matrix(
    partial: Callable[[Dependence], None] | None,
    model: MaskedLM,
    question: _Question,
    rule: Construction,
) -> Callable[[PairMatrix], None] | None:
    """The user's `partial`, as a function of the numbers so far instead of a result; None if the
    user gave none.
    """
    if partial is None:
        return None

    def call_with_result(pairs: PairMatrix) -> None:
        partial(_answer(model, question, rule, pairs))

    return call_with_result


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
        positions=tuple(position - question.start_tokens + 1 for position in cloze.block),
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


def _read_text(model: MaskedLM, text: str, positions: Places | None) -> tuple[Cloze, int]:
    """The cloze whose block is measured, and how many start tokens the text has.

    The block has the positions that the user named; without them it has the blanks of the text,
    or all tokens of a whole text except special ones.
    """
    from unmask.models.text.blanks import cloze_of
    from unmask.models.text.text_tokenizer import refuse_hopeless, shortened

    refuse_hopeless(text, model.max_length)
    tokens = model.words.tokens_of(text)
    start, stop = tokens.inside
    has_blanks = model.mask_id in tokens.ids
    if positions is None and not has_blanks:
        positions = []
        for place, token in enumerate(tokens.ids[start:stop], 1):
            if token not in model.special_ids:
                positions.append(place)
    cloze = cloze_of(model.words, text, positions, max_length=model.max_length)
    if len(cloze.block) < 2:
        what = "blank" if _is_blanked(cloze) else "known token to measure"
        raise InputError(
            f"the text {shortened(text)} has one {what}: dependence is between two or more, give"
            " another"
        )
    return cloze, start


def _is_blanked(cloze: Cloze) -> bool:
    """Whether the text was given with blanks: the tokens that stood there are not known."""
    return cloze.gold is None


def _others_of(cloze: Cloze, others: Others | None) -> Others:
    """What stands at the other positions while a pair is measured.

    others   what the user asked for; None for the default
    """
    if others == "text" and _is_blanked(cloze):
        raise InputError(
            "'text' needs a whole text, and this one has blanks",
            argument="others",
            use="leave it out, or write words in the blanks",
        )
    if others is not None:
        return others
    return "masked" if _is_blanked(cloze) else "text"


def _refuse_others_without_effect(questions: Sequence[_Question]) -> None:
    """Raise if every text has two positions: while these are measured, no other one is blanked."""
    if all(len(question.cloze.block) == 2 for question in questions):
        raise InputError(
            "does nothing with two positions, beside which no other is measured",
            argument="others",
            use="leave it out",
        )


def _candidate_count(sites: int, n_allowed: int, asked: int | None, has_alphabet: bool) -> int:
    """How many tokens of each position are considered.

    n_allowed      how many may stand there
    asked          how many the user asked for; None for the default
    has_alphabet   whether the user named the tokens that may stand there
    """
    from unmask.tables.default_effort import SMALL_VOCABULARY

    if asked is not None:
        return min(asked, n_allowed)
    if n_allowed <= SMALL_VOCABULARY:
        return n_allowed
    if has_alphabet:  # the user wants all of them: take as many as the limit of passes permits
        fitting = max(2, _fitting_candidates(sites))  # of one token nothing depends on anything
        return min(n_allowed, fitting)
    passes_per_candidate = 2 * comb(sites, 2)  # a pair takes 2 n + 1 passes
    usual = USUAL_PASSES // passes_per_candidate
    return min(n_allowed, MOST_CANDIDATES, max(FEWEST_CANDIDATES, usual))


def _fitting_candidates(sites: int) -> int:
    """A number of candidates n that MAX_PASSES passes permit: the largest, or one less.

    P pairs take P (2 n + 1) passes. With n = floor(MAX_PASSES / (2 P)) - 1 this is at most
    MAX_PASSES - P.
    """
    from unmask.tables.joint_limits import MAX_PASSES

    pairs = comb(sites, 2)
    return MAX_PASSES // (2 * pairs) - 1


def _refuse_many_passes(sites: int, size: int) -> None:
    """Raise if all pairs of the sites need more than MAX_PASSES passes."""
    from unmask.tables.joint_limits import MAX_PASSES
    from unmask.tables.unary import pass_count

    pairs = comb(sites, 2)
    passes = pairs * pass_count([size, size])
    if passes <= MAX_PASSES:
        return
    fitting = _fitting_candidates(sites)
    force = argument_name("force", value=True)
    if fitting >= FEWEST_SUGGESTED:
        use = f"use {argument_name('candidates', fitting)} or fewer, or {force}"
    else:
        use = f"measure fewer positions, or use {force}"
    grid = f"{pairs:,} pairs of positions with {size:,} x {size:,} candidates"
    raise InputError(
        f"{grid} need {passes:,} passes of the model (limit {MAX_PASSES:,})",
        use=use,
    )


def _rows(matrix: Float[Tensor, "k k"]) -> list[list[float | None]]:
    """The rows of a matrix; None on the diagonal and for NaN."""
    without_diagonal = matrix.clone().fill_diagonal_(nan)
    rows: list[list[float | None]] = []
    for row in without_diagonal.tolist():
        known = [None if isnan(value) else value for value in row]
        rows.append(known)
    return rows
