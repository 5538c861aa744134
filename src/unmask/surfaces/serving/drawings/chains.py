"""Chains and decoders as they run: texts of tokens, frames, and curves over the sweeps."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor, isfinite, log10
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from typing_extensions import TypedDict  # pydantic makes no schema of typing's in Python 3.11

from unmask.common.formats import count, how_many, in_form, share
from unmask.common.result_tables import NO_VALUE, Column, Table
from unmask.models.text.vocabulary import CONTINUES
from unmask.surfaces.serving.drawings.shapes import (
    SavedTable,
    Told,
    percent_of,
    saved_table,
)

if TYPE_CHECKING:
    from unmask.models.masked_lm import MaskedLM
    from unmask.verbs.generate import Generation

Token = tuple[str, str]
"""A token as it is written, and its kind:

""        any token that is none of these
"piece"   of WordPiece, a part of a word that is not its first
"blank"   the mask
"edge"    a special token at an end of the text, which is not written
"""
Confidence = tuple[float, str]
"""The model's probability of a token when it was chosen, and this in words."""
Tick = tuple[float, str]
"""A place on an axis from 0 to 1, and the text there."""
MOST_STEPS = 4  # from tick to tick along an axis
FLAT = 1e-9  # numbers that differ by less are drawn as equal ones
FLAT_OF_SIZE = 1e-12  # or by less than this part of their size, where floats have few digits left
MARGIN = 1.0  # on both sides of equal numbers
MARGIN_OF_SIZE = 1e-9  # at least this part of their size: 1e16 + 1 is 1e16 again
ROUNDING = 1e-9
"""The part of a step by which a tick may lie beyond an end of its axis: quotients are rounded, and
0.7 / 0.1 is less than 7.
"""
SPACE = "␣"  # a token of spaces alone
BLANK = "▁"

written_energy = in_form(".2f")  # as the tables of `sample` write it
REJECTED = "drafted, and rejected"


class Sign(TypedDict):
    """A mark of a token, and what it means.

    kind   the mark; "" for the colour that all tokens have
    """

    kind: str
    text: str


class Axis(TypedDict):
    """The numbers at the two ends of an axis, and texts along it."""

    low: float
    high: float
    ticks: list[Tick]


class Picture(TypedDict):
    """What a picture of curves is.

    name      the key of its values in a sweep
    caption   the line above it
    label     what it is, for readers of screens
    """

    name: str
    caption: str
    label: str


class Sweep(TypedDict):
    """What the curves and the numbers beside them show of one sweep.

    sweep    its number; 0: the starts
    values   a point of each curve, by picture; None where there is none
    facts    names and texts of the numbers so far
    axes     the vertical axis of each picture, by its name: wide enough for this sweep and all
             before it, of the same chains
    """

    sweep: int
    values: dict[str, list[float | None]]
    facts: list[tuple[str, str]]
    axes: dict[str, Axis]


class Move(TypedDict):
    """What a step did to one text. `tokens`, `marks` and a decoder's `confidence` have an item for
    each of `positions`.

    positions    those that it wrote
    tokens       what stands there now
    marks        the kind of the sign of each, never ""
    confidence   of a decoder: that of each token; None where it is blank again. Of a kernel: empty
    rejected     of a decoder: position and token of each draft that it rejected. Of a kernel: empty
    """

    positions: list[int]
    tokens: list[Token]
    marks: list[str]
    confidence: list[Confidence | None]
    rejected: list[tuple[int, str]]


class Ends(TypedDict):
    """The horizontal axis of the curves: the sweep at its right end, and the texts at both ends."""

    last: int
    texts: tuple[str, str]


class Begun(TypedDict):
    """The first step event of a group of texts. A decoder has no sweeps, and so no curves.

    frame      what the first frame is called
    names      of the texts
    tokens     of each text
    free       the positions whose tokens the chains or the decoder choose
    legend     the signs of tokens
    rejected   what is said of a rejected draft; "" where there are no drafts
    pictures   the pictures of curves; none of a decoder
    starts     the starts as a sweep; None of a decoder
    ends       the horizontal axis of the curves; of a decoder nothing is drawn on it
    """

    kind: Literal["begun"]
    frame: str
    names: list[str]
    tokens: list[list[Token]]
    free: list[int]
    legend: list[Sign]
    rejected: str
    pictures: list[Picture]
    starts: Sweep | None
    ends: Ends


class Stepped(TypedDict):
    """A step event: what one step did to each text, and what its frame is called."""

    kind: Literal["stepped"]
    frame: str
    moves: list[Move]


class Swept(TypedDict):
    """A step event after the last step of a sweep."""

    kind: Literal["swept"]
    swept: Sweep


class SampleDrawing(TypedDict):
    """What is drawn of a run of chains, beside the steps that were events.

    heading   above its verdict
    part      of a run that was stopped: how much of it there is; "" of any other
    ends      the horizontal axis of the curves
    passes    passes of the model so far, in words
    sweeps    the table of all sweeps and chains: texts, energies, and shares so far
    told      the numbers that another model's are compared with
    """

    heading: str
    part: str
    ends: Ends
    passes: str
    sweeps: SavedTable
    told: Told


class GenerateDrawing(TypedDict):
    """What is drawn of the texts of a decoder, beside the steps that were events.

    passes   passes of the model, in words
    told     the numbers that another model's are compared with
    """

    passes: str
    told: Told


def sample_legend(noun: str) -> list[Sign]:
    """The signs of the steps of a kernel; a token is called by `noun`."""
    return [
        {"kind": "changed", "text": f"changed: another {noun} was taken"},
        {"kind": "refused", "text": f"refused: another {noun} was offered"},
        {"kind": "same", "text": f"redrawn, the same {noun}"},
    ]


GENERATE_LEGEND: list[Sign] = [
    {"kind": "", "text": "the stronger the colour, the surer the model was of it"},
    {"kind": "new", "text": "filled in this step"},
    {"kind": "draft", "text": f"struck out: {REJECTED}"},
]
SAMPLE_PICTURES: list[Picture] = [
    {
        "name": "energies",
        "caption": "Energy of each chain",
        "label": "energy of each chain over sweeps",
    },
    {
        "name": "shares",
        "caption": "Share of steps accepted (blue) and changed (orange)",
        "label": "shares of steps accepted and changed over sweeps",
    },
]
SHARES: Axis = {"low": 0.0, "high": 1.0, "ticks": [(0.0, "0"), (0.5, "0.5"), (1.0, "1")]}


def text_tokens(model: MaskedLM, ids: Sequence[int]) -> list[Token]:
    """The tokens of a text; those at its ends are not written if they are special."""
    tokens = tokens_at(model, ids)
    for end in (0, len(ids) - 1):
        is_blank = ids[end] == model.mask_id  # the mask is special, and it is shown
        if ids[end] in model.special_ids and not is_blank:
            tokens[end] = ("", "edge")
    return tokens


def tokens_at(model: MaskedLM, ids: Sequence[int]) -> list[Token]:
    """Tokens inside a text."""
    tokens = []
    for token_id, name in zip(ids, model.decode(ids), strict=True):
        tokens.append(_token(model, token_id, name))
    return tokens


def _token(model: MaskedLM, token_id: int, name: str) -> Token:
    if token_id == model.mask_id:
        return BLANK, "blank"
    is_word_piece = not model.words.spaces_in_tokens  # other tokens may begin with "##", too
    if is_word_piece and name.startswith(CONTINUES) and name != CONTINUES:
        return name.removeprefix(CONTINUES), "piece"
    spelled = name.strip() or SPACE
    return spelled, ""


def confidence_of(probability: float) -> Confidence:
    """The model's probability of a token when it was chosen, and this in words."""
    return probability, f"{percent_of(probability)} when it was chosen"


def frame_of_chains(step: int, steps: int, sweep: int) -> str:
    """What a frame of chains is called: the step after which the texts are so, of all steps."""
    return f"step {count(step)} of {count(steps)}, sweep {count(sweep)}"


def frame_of_decoder(step: int) -> str:
    """What a frame of a decoder is called; it may end before the most steps that it may take."""
    return f"step {count(step)}"


def ends_at(sweep: int) -> Ends:
    """The horizontal axis of curves up to a sweep."""
    return {"last": sweep, "texts": ("0", how_many(sweep, "sweep"))}


class Counts(NamedTuple):
    """Steps of chains from their starts on, and how many of these were accepted, and changed a
    token.
    """

    steps: int = 0
    accepted: int = 0
    changed: int = 0

    def plus(self, others: Counts) -> Counts:
        """The counts of these chains and others."""
        return Counts(
            steps=self.steps + others.steps,
            accepted=self.accepted + others.accepted,
            changed=self.changed + others.changed,
        )

    def shares(self) -> tuple[float | None, float | None]:
        """The shares of steps accepted and changed; None before the first step."""
        if self.steps == 0:
            return None, None
        return self.accepted / self.steps, self.changed / self.steps


class SweepLog:
    """The sweeps of a run so far, of all of its chains. Groups of chains run one after the other.

    chains     how many there will be
    sweeps     those that are asked for, of each chain
    energies   of each chain by its number, first at its start
    texts      of each chain, first at its start
    counts     up to a sweep, of all chains that have done it, by sweep
    passes     of each chain so far
    """

    def __init__(self, chains: int, sweeps: int) -> None:
        self.chains = chains
        self.sweeps = sweeps
        self.energies: dict[int, list[float]] = {}
        self.texts: dict[int, list[str]] = {}
        self.counts: dict[int, Counts] = {}
        self.passes: dict[int, int] = {}
        self._latest_counts: dict[int, Counts] = {}  # of each group, by its first chain
        self._bounds: dict[int, tuple[float, float]] = {}
        # By chain, the least and the largest finite energy so far, for the axis: a look at all
        # energies at each sweep would take a time that is quadratic in the sweeps.

    def _sweeps_of(self, chain: int) -> int:
        """Sweeps that a chain has done."""
        return len(self.energies[chain]) - 1  # the first energy is that of its start

    @property
    def done(self) -> int:
        """Sweeps that every chain has done; 0 where one has not begun."""
        if len(self.energies) < self.chains:
            return 0
        return min(self._sweeps_of(chain) for chain in self.energies)

    @property
    def last(self) -> int:
        """Sweeps that any chain has done."""
        return max((self._sweeps_of(chain) for chain in self.energies), default=0)

    def add(
        self,
        chains: Sequence[int],
        energies: Sequence[float],
        texts: Sequence[str],
        passes: Sequence[int],
    ) -> None:
        """Keep what a group of chains holds after a sweep, or at its start."""
        for chain, energy, text, spent in zip(chains, energies, texts, passes, strict=True):
            self.energies.setdefault(chain, []).append(energy)
            self._widen(chain, energy)
            self.texts.setdefault(chain, []).append(text)
            self.passes[chain] = spent

    def _widen(self, chain: int, energy: float) -> None:
        """Keep the least and the largest energy of a chain; an infinity is not drawn."""
        if not isfinite(energy):
            return
        low, high = self._bounds.get(chain, (energy, energy))
        self._bounds[chain] = (min(low, energy), max(high, energy))

    def add_counts(self, chains: Sequence[int], sweep: int, counts: Counts) -> None:
        """Add what a group of chains has counted from its start to the end of `sweep`. Each group
        gives its counts once for a sweep.
        """
        self.counts[sweep] = self.counts.get(sweep, Counts()).plus(counts)
        self._latest_counts[chains[0]] = counts

    def shares(self, sweep: int) -> tuple[float | None, float | None]:
        """The shares of steps accepted and changed up to a sweep, of all chains that have done it;
        None before the first step.
        """
        return self.counts.get(sweep, Counts()).shares()

    def _latest_shares(self) -> tuple[float | None, float | None]:
        """The shares of all steps so far; a group that was stopped has done fewer sweeps."""
        of_all = Counts()
        for of_group in self._latest_counts.values():
            of_all = of_all.plus(of_group)
        return of_all.shares()

    def sweep(self, chains: Sequence[int], sweep: int) -> Sweep:
        """A sweep of a group of chains, as it is drawn. The energies are those of these chains, the
        shares those of all that have done the sweep.

        sweep   the latest of these chains, for whose energies the axis is wide enough
        """
        energies = [self.energies[chain][sweep] for chain in chains]
        mean = sum(energies) / len(energies)
        accepted, changed = self.shares(sweep)
        bounds: list[float] = []
        for chain in chains:
            if chain in self._bounds:  # not if all its energies are infinite
                bounds += self._bounds[chain]
        facts = [
            ("accepted", _share(accepted)),
            ("changed", _share(changed)),
            ("mean energy", written_energy(mean)),
        ]
        return {
            "sweep": sweep,
            "values": {
                "energies": [_point(energy) for energy in energies],
                "shares": [accepted, changed],
            },
            "facts": facts,
            "axes": {"energies": axis(bounds), "shares": SHARES},
        }

    def table(self) -> Table:
        """All sweeps and chains."""
        numbers = ("sweep", "chain", "energy", "acceptance", "novelty")
        columns = [Column(name) for name in numbers]
        columns.append(Column("text", text=True))
        rows: list[list[Any]] = []
        for sweep in range(self.last + 1):
            accepted, changed = self.shares(sweep)
            for chain in sorted(self.energies):
                if sweep > self._sweeps_of(chain):  # its group comes later, or was stopped
                    continue
                energy = self.energies[chain][sweep]
                text = self.texts[chain][sweep]
                rows.append([sweep, chain + 1, energy, accepted, changed, text])
        return Table(columns, rows)

    def told(self) -> Told:
        """The numbers of the last sweep; each chain counts up to its own last one."""
        accepted, changed = self._latest_shares()
        values = {"accepted": accepted, "changed": changed}
        for chain in sorted(self.energies):
            values[f"energy of chain {chain + 1}"] = self.energies[chain][-1]
        return {"by": "the last sweep", "values": values}

    def drawn(self, is_last: bool) -> SampleDrawing:
        """What is drawn of the run so far.

        is_last   it has ended, by itself or because it was stopped: this is its answer
        """
        part = ""
        heading = "So far"
        ends = ends_at(self.sweeps)
        if is_last:
            heading = "How far to trust them"
            ends = ends_at(self.last)
            if self.done < self.sweeps:
                part = f"{count(self.done)} of {how_many(self.sweeps, 'sweep')}"
        return {
            "heading": heading,
            "part": part,
            "ends": ends,
            "passes": passes_in_words(sum(self.passes.values())),
            "sweeps": saved_table(self.table()),
            "told": self.told(),
        }


def generate_drawing(generation: Generation) -> GenerateDrawing:
    """What is drawn of the texts of a decoder."""
    values = {}
    for n, row in enumerate(generation.rows, 1):
        values[f"text {n}"] = row["log_prob"]
    return {
        "passes": passes_in_words(generation.passes),
        "told": {"by": "log-probability of each text", "values": values},
    }


def passes_in_words(passes: int) -> str:
    """A number of passes, with its unit."""
    return f"{how_many(passes, 'pass', 'passes')} of the model"


def _point(value: float) -> float | None:
    """A number as a point of a curve, which has none at an infinity."""
    return value if isfinite(value) else None


def _share(value: float | None) -> str:
    """A share in words; a dash before the first step."""
    if value is None:
        return NO_VALUE
    return share(value)


def axis(values: Sequence[float]) -> Axis:
    """The axis of some numbers, with ticks at multiples of 1, 2 or 5 times a power of ten; numbers
    that are not finite are left out.
    """
    finite = [value for value in values if isfinite(value)]
    low = min(finite, default=0.0)
    high = max(finite, default=1.0)
    size = max(abs(low), abs(high))
    if high - low < max(FLAT, FLAT_OF_SIZE * size):
        margin = max(MARGIN, MARGIN_OF_SIZE * size)
        low -= margin
        high += margin
    step, decimals = _step(high - low, MOST_STEPS)
    multiples = _multiples(low, high, step)
    if len(multiples) < 2:  # no scale can be read off one tick, such as 5 from 1 to 9.1
        step, decimals = _step(high - low, MOST_STEPS + 1)
        multiples = _multiples(low, high, step)
    ticks: list[Tick] = []
    for multiple in multiples:
        place = (multiple * step - low) / (high - low)
        inside = min(max(place, 0.0), 1.0)
        ticks.append((inside, f"{multiple * step:,.{decimals}f}"))
    return {"low": low, "high": high, "ticks": ticks}


def _step(extent: float, most: int) -> tuple[float, int]:
    """The smallest step of 1, 2 or 5 times a power of ten that fits at most `most` times into an
    extent, and its decimals.
    """
    power = floor(log10(extent / most))
    for digit in (1, 2, 5):
        step = digit * 10.0**power
        if extent / step <= most:
            return step, max(0, -power)
    larger = power + 1
    return 10.0**larger, max(0, -larger)


def _multiples(low: float, high: float, step: float) -> range:
    """The whole numbers n for which n times the step lies on an axis."""
    first = ceil(low / step - ROUNDING)
    last = floor(high / step + ROUNDING)
    return range(first, last + 1)
