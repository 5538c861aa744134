"""What the page draws of a `Filling`: the map of two blanks, the bars of each, its completions."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp
from typing import TYPE_CHECKING, cast

from typing_extensions import TypedDict

from unmask.common.plain import in_json
from unmask.common.result_tables import Column, Table
from unmask.joints.joint import Joint, conditional
from unmask.surfaces.serving.drawings.pair_maps import (
    JOINT,
    PRODUCT,
    Axis,
    PairMap,
    cells_of,
    pair_map,
    shown_token,
)
from unmask.surfaces.serving.drawings.shapes import (
    Grid,
    Share,
    TableDrawing,
    Told,
    part_of,
    percent_of,
)

if TYPE_CHECKING:
    from torch import Tensor

    from unmask.models.masked_lm import MaskedLM
    from unmask.verbs.fill import Filling

BARS = 8  # tokens of a blank that have a bar; the pinned word has one besides, if not among them
PIN_NOTE = "The likeliest {noun}s of the map: pin one, and watch the other blank change."
PINNED_NOTE = "“{word}” in {name} changes the other one; a mark is where it was before."
WITHOUT_PIN = "The map is without the pin."
COMPARED_WITHOUT_PIN = "Constructions are compared without the pin."


class Bar(TypedDict):
    """The probability of a token at a blank.

    id       as an address names it
    token    as a request names it
    label    as it is shown
    now      its probability, as a part of the longest bar's
    before   the probability without the pin, as a part of the same; None if nothing is pinned in
             the other blank
    text     its probability
    pinned   whether this token is pinned
    """

    id: int
    token: str
    label: str
    now: Share
    before: Share | None
    text: str
    pinned: bool


class BlankBars(TypedDict):
    """Bars of a blank: its likeliest tokens and the pinned one; `blank` counts from 0, `title`
    names it.
    """

    blank: int
    title: str
    bars: list[Bar]


class Pin(TypedDict):
    """A word that is pinned: its blank, counted from 0, and the id of its token."""

    blank: int
    id: int


class Pins(TypedDict):
    """The bars of both blanks, and a word that may be pinned in one of them.

    pinned   the pinned word; None without one
    note     what the bars are
    blanks   the bars of each blank
    table    without a pin: the tokens of the map, and their marginals under joint and product.
             With a pin: the likeliest tokens of the other blank, given the pin, and their
             probabilities with the pin, without it, and by the model itself
    """

    pinned: Pin | None
    note: str
    blanks: list[BlankBars]
    table: TableDrawing


class DrawnMap(TypedDict):
    """The map of two blanks.

    grid    its cells
    notes   sentences below it
    table   the probabilities of its cells
    pins    the bars beside it
    """

    grid: Grid
    notes: list[str]
    table: TableDrawing
    pins: Pins


class DrawnCompletion(TypedDict):
    """A completion.

    words   what it puts in each blank, without the spaces of its tokens
    share   the length of its bar
    """

    words: list[str]
    share: Share


class FillDrawing(TypedDict):
    """What is drawn of a filling.

    map           of a text with two blanks whose joint has a table; None of any other text
    completions   one for each completion of the answer
    compared      sentences above the comparison of every construction on these blanks
    told          log-probabilities of the completions
    """

    map: DrawnMap | None
    completions: list[DrawnCompletion]
    compared: list[str]
    told: Told


@dataclass(frozen=True)
class _Tokens:
    """Tokens of one blank, likeliest first.

    ids      their token ids
    tokens   how they are spelled
    now      their probabilities
    before   the same without the pin; None where nothing is pinned in the other blank
    """

    ids: list[int]
    tokens: list[str]
    now: list[float]
    before: list[float] | None = None


def drawn_filling(filling: Filling, model: MaskedLM, noun: str, cells: int) -> FillDrawing:
    """What the page draws of a filling.

    noun    what a blank holds: word or residue
    cells   tokens along each edge of the map
    """
    drawn_map = None
    if filling.table is not None and filling.joint.sites == 2:
        drawn_map = _drawn_map(filling, model, noun, cells)
    return {
        "map": drawn_map,
        "completions": _completions(filling),
        "compared": [COMPARED_WITHOUT_PIN] if filling.given else [],
        "told": _told(filling),
    }


def _completions(filling: Filling) -> list[DrawnCompletion]:
    probabilities = [exp(one.log_prob) for one in filling.completions]
    longest = max(probabilities, default=0.0)
    drawn: list[DrawnCompletion] = []
    for one, probability in zip(filling.completions, probabilities, strict=True):
        of_blanks = one.tokens
        if one.parts:  # a search may fill a blank with several tokens
            of_blanks = one.parts
        words = [shown_token(word) for word in of_blanks]
        drawn.append({"words": words, "share": part_of(probability, longest)})
    return drawn


def _told(filling: Filling) -> Told:
    values: dict[str, float] = {}
    for one in filling.completions:
        # Several tokens may spell one text: the likeliest of them comes first, and stands for it.
        values.setdefault(one.text, one.log_prob)
    return {"by": "log-probability of completions", "values": in_json(values)}


def _drawn_map(filling: Filling, model: MaskedLM, noun: str, cells: int) -> DrawnMap:
    """The map of the joint without the pin, whatever is pinned."""
    cloze = filling.cloze
    gold = None if cloze is None else cloze.gold
    along_edge = cells_of(model, cells)
    drawn = pair_map(filling.joint, filling.product, cells=along_edge, gold=gold)
    names = _names(filling, model, noun)
    notes = [drawn.note()]
    if filling.given:
        notes.append(WITHOUT_PIN)
    pin = _pin(filling)
    if pin is None:
        pins = _pins_without_pin(drawn, names, noun)
    else:
        pins = _pins_with_pin(filling.joint, drawn, names, pin, cells=along_edge)
    return {
        "grid": drawn.grid(names),
        "notes": notes,
        "table": _drawn_table(drawn.table()),
        "pins": pins,
    }


def _names(filling: Filling, model: MaskedLM, noun: str) -> tuple[str, str]:
    """The names of two blanks: their numbers, or of a model of single letters their places."""
    if not model.words.by_character or filling.cloze is None:
        return ("blank 1", "blank 2")
    first_place = model.words.tokens_of(filling.text).inside[0]  # special tokens stand before it
    first, second = (place - first_place + 1 for place in filling.cloze.block)
    return (f"{noun} {first}", f"{noun} {second}")


def _pin(filling: Filling) -> Pin | None:
    """The word that is given in one of two blanks.

    None without one, and without completions: the given word is then not among the candidates.
    """
    if not filling.given or not filling.completions:
        return None
    (number,) = filling.given.keys()  # of one blank: `fill` refuses words for both
    blank = number - 1
    best = filling.completions[0]  # every completion has the token of the given word there
    return Pin(blank=blank, id=best.ids[blank])


def _pins_without_pin(drawn: PairMap, names: tuple[str, str], noun: str) -> Pins:
    """The likeliest tokens of both blanks, each with the other blank unknown."""
    rows: list[list[object]] = []
    blanks: list[BlankBars] = []
    for blank, axis in enumerate(drawn.axes):
        bars = _bars(_of_axis(axis))
        blanks.append(_blank_bars(blank, names[blank], bars))
        of_tokens = zip(axis.tokens, axis.marginal, axis.independent, strict=True)
        for token, joint, product in of_tokens:
            rows.append([blank + 1, token, joint, product])
    columns = [
        Column("blank"),
        Column("token", text=True),
        Column(JOINT, percent_of),
        Column(PRODUCT, percent_of),
    ]
    return {
        "pinned": None,
        "note": PIN_NOTE.format(noun=noun),
        "blanks": blanks,
        "table": _drawn_table(Table(columns, rows)),
    }


def _pins_with_pin(
    joint: Joint, drawn: PairMap, names: tuple[str, str], pin: Pin, cells: int
) -> Pins:
    """The tokens of the blank with the pin as they were, and those of the other blank given it."""
    pinned_blank = pin["blank"]
    other = 1 - pinned_blank
    word = shown_token(joint.tables.spelled(pinned_blank, pin["id"]))
    probabilities = conditional(joint, other, [pin["id"]])
    places = probabilities.topk(min(cells, len(probabilities))).indices  # among the candidates
    of_other = _tokens_given_pin(joint, pin, places, now=probabilities[places])
    of_pinned = _with_pinned_token(_of_axis(drawn.axes[pinned_blank]), joint, pin)
    title_of_other = f"{names[other]}, given “{word}”"
    blanks = [
        _blank_bars(pinned_blank, names[pinned_blank], _bars(of_pinned, pinned=pin["id"])),
        _blank_bars(other, title_of_other, _bars(of_other)),
    ]
    if pinned_blank == 1:
        blanks.reverse()  # the first blank comes first
    return {
        "pinned": pin,
        "note": PINNED_NOTE.format(word=word, name=names[pinned_blank]),
        "blanks": blanks,
        "table": _table_given_pin(of_other, by_model=_by_model(joint, pin, places)),
    }


def _tokens_given_pin(joint: Joint, pin: Pin, places: Tensor, now: Tensor) -> _Tokens:
    """Tokens of the blank without the pin, and as `before` their probabilities mu(y) without it.

    places   of the tokens y among the blank's candidates
    now      their probabilities mu(y | x), where x is the pinned token
    """
    other = 1 - pin["blank"]
    candidates = joint.tables.candidates[other]
    ids = candidates[places.to(candidates.device)].tolist()
    return _Tokens(
        ids=ids,
        tokens=[joint.tables.spelled(other, token) for token in ids],
        now=now.tolist(),
        before=joint.marginals()[other][places].tolist(),
    )


def _by_model(joint: Joint, pin: Pin, places: Tensor) -> list[float]:
    """The model's own q(y | x) of the same tokens y, given the pinned token x."""
    log_q_of_other = joint.tables.log_q[1 - pin["blank"]]  # by the tokens of both blanks
    log_q_given_pin = log_q_of_other.select(dim=pin["blank"], index=_place_of_pin(joint, pin))
    return log_q_given_pin.exp()[places].tolist()


def _place_of_pin(joint: Joint, pin: Pin) -> int:
    candidates: list[int] = joint.tables.candidates[pin["blank"]].tolist()
    return candidates.index(pin["id"])


def _of_axis(axis: Axis) -> _Tokens:
    return _Tokens(ids=axis.ids, tokens=axis.tokens, now=axis.marginal)


def _with_pinned_token(tokens: _Tokens, joint: Joint, pin: Pin) -> _Tokens:
    """The tokens of the blank with the pin, and after them the pinned one if it is not there."""
    if pin["id"] in tokens.ids:
        return tokens
    marginal = joint.marginals()[pin["blank"]]
    probability = float(marginal[_place_of_pin(joint, pin)])
    return _Tokens(
        ids=[*tokens.ids, pin["id"]],
        tokens=[*tokens.tokens, joint.tables.spelled(pin["blank"], pin["id"])],
        now=[*tokens.now, probability],
    )


def _table_given_pin(tokens: _Tokens, by_model: list[float]) -> TableDrawing:
    assert tokens.before is not None, "a word is pinned in the other blank"
    columns = [
        Column("token", text=True),
        Column("given", percent_of),
        Column("before", percent_of),
        Column("model", percent_of),
    ]
    rows = list(zip(tokens.tokens, tokens.now, tokens.before, by_model, strict=True))
    return _drawn_table(Table(columns, rows))


def _blank_bars(blank: int, title: str, bars: list[Bar]) -> BlankBars:
    return {"blank": blank, "title": title[0].upper() + title[1:], "bars": bars}


def _bars(tokens: _Tokens, pinned: int | None = None) -> list[Bar]:
    """The bars of the first BARS tokens, and that of the pinned one.

    The longest bar has the largest probability of these, now or before.
    """
    n_likeliest = min(BARS, len(tokens.ids))
    shown = list(range(n_likeliest))  # the numbers in `tokens` of those with a bar
    if pinned is not None:
        n_of_pinned = tokens.ids.index(pinned)
        if n_of_pinned not in shown:
            shown.append(n_of_pinned)
    probabilities = [tokens.now[n] for n in shown]
    if tokens.before is not None:
        probabilities += [tokens.before[n] for n in shown]
    longest = max(probabilities)
    bars: list[Bar] = []
    for n in shown:
        before = None
        if tokens.before is not None:
            before = part_of(tokens.before[n], longest)
        bars.append(
            {
                "id": tokens.ids[n],
                "token": tokens.tokens[n],
                "label": shown_token(tokens.tokens[n]),
                "now": part_of(tokens.now[n], longest),
                "before": before,
                "text": percent_of(tokens.now[n]),
                "pinned": tokens.ids[n] == pinned,
            }
        )
    return bars


def _drawn_table(table: Table) -> TableDrawing:
    return cast(TableDrawing, table.to_dict())
