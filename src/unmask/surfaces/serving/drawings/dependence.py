"""The words of a text with the dependence of each pair, and the maps of the strongest pairs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import comb
from typing import TYPE_CHECKING, Any

from typing_extensions import TypedDict

from unmask.common.formats import count, nats, percent_at_least
from unmask.common.result_tables import Column, Table
from unmask.joints.deriving import derived
from unmask.joints.incompatibility import incompatibility
from unmask.joints.joint import Joint
from unmask.joints.registry import INDEPENDENT, named
from unmask.surfaces.serving.drawings.pair_maps import JOINT, cells_of, pair_map
from unmask.surfaces.serving.drawings.shapes import Grid, SavedTable, Told, saved_table
from unmask.surfaces.serving.texts import Nouns, by_word

if TYPE_CHECKING:
    from unmask.models.masked_lm import MaskedLM
    from unmask.models.text.text_tokenizer import Tokens
    from unmask.verbs.dependence import Dependence

PAIR_CELLS = 7  # tokens along each edge of a pair's map
DRAWN_PAIRS = 40  # as many of the strongest pairs have an arc and a map
LISTED_PAIRS = 10  # as many of the strongest pairs are in the list
WIDEST = 1.5  # nats from which on an arc has the full width
FAR = 1.4
"""A pair is `off` if its conditionals are more than this many nats (root mean square) from any
joint. Of 40 pairs of blanks in sentences of English Web Treebank, the number that was used before
this one decides alike for 39.
"""
OFF = f"conditionals more than {FAR} nats (root mean square) from any joint"


class Piece(TypedDict):
    """A measured token.

    text   its letters in the text
    word   a number that pieces of one word share: where the first token of the word stands
    name   what lists call it; no other piece has the same name
    """

    text: str
    word: int
    name: str


class Pair(TypedDict):
    """A pair of pieces with an arc.

    key       their positions in the text, as an address has them: "2,5"
    i, j      the pieces, counted from 0
    name      of both
    title     the name and the number
    caption   the number, and how much of the mass the candidates hold
    share     the width of the arc from 0 to 1: the full width has an arc of WIDEST nats or more
    off       whether the conditionals are more than FAR from any joint
    map       of the joint that the number is of
    """

    key: str
    i: int
    j: int
    name: str
    title: str
    caption: str
    share: float
    off: bool
    map: Grid


class DependenceDrawing(TypedDict):
    """What the page draws of a dependence.

    pieces      the measured tokens, in the order of the text
    pairs       the pairs with an arc, the most dependent first
    strongest   the list of the first of these pairs, a row each
    table       every measured pair, for a file
    measured    how many pairs are measured, of `count`
    part        "12 of 78 pairs" if not all are measured, else ""
    width       what the width of an arc is
    off         what it means that a pair is `off`
    drawn       which pairs have an arc, if not all measured ones have; else ""
    told        the mutual information of every measured pair
    """

    pieces: list[Piece]
    pairs: list[Pair]
    strongest: dict[str, Any]
    table: SavedTable
    measured: int
    count: int
    part: str
    width: str
    off: str
    drawn: str
    told: Told


class StrongestJoints:
    """The joints of the strongest pairs of a text, as `dependence` finds them.

    joints   by the pair of pieces, counted from 0; at most DRAWN_PAIRS
    """

    def __init__(self) -> None:
        self.joints: dict[tuple[int, int], Joint] = {}
        self._strengths: dict[tuple[int, int], tuple[float, int, int]] = {}  # of the same pairs

    def look(self, i: int, j: int, joint: Joint) -> None:
        """Keep the joint of the pieces i and j, if it is one of the strongest so far."""
        self._strengths[i, j] = _strength(i, j, joint)
        self.joints[i, j] = joint
        if len(self.joints) > DRAWN_PAIRS:
            weakest = min(self._strengths, key=self._strengths.__getitem__)
            del self.joints[weakest]
            del self._strengths[weakest]


def _strength(i: int, j: int, joint: Joint) -> tuple[float, int, int]:
    """The larger, the earlier `Dependence.pairs` has the pair: the pairs with an arc are its first.

    A mutual information below 0 is a rounding error. Of pairs with the same number, the earlier
    in the text comes first.
    """
    nats_of_pair = max(joint.mutual_information(), 0.0)
    return nats_of_pair, -i, -j


def drawn_dependence(
    dependence: Dependence, joints: StrongestJoints, model: MaskedLM, nouns: Nouns
) -> DependenceDrawing:
    """The drawing of a dependence.

    joints   those that the verb found for the strongest pairs
    nouns    what a text and its units are called
    """
    return _Drawer(dependence, model, nouns).drawing(joints)


@dataclass(frozen=True)
class _Drawer:
    """Draws a dependence.

    A place is that of a token in the text with its special tokens, from 0. A position is the
    number of a token without them, from 1. i and j are numbers of pieces, from 0.
    """

    dependence: Dependence
    model: MaskedLM
    nouns: Nouns

    def drawing(self, joints: StrongestJoints) -> DependenceDrawing:
        """Pieces, pairs and tables."""
        n_measured = len(self.measured)
        n_pairs = comb(len(self.places), 2)
        pairs = []
        values: dict[str, float] = {}
        for i, j, value in self.measured:
            values[self._both(i, j)] = value
            joint = joints.joints.get((i, j))
            if joint is not None:
                pairs.append(self._pair(i, j, joint))
        part = ""
        if n_measured < n_pairs:
            part = f"{count(n_measured)} of {count(n_pairs)} pairs"
        drawn = ""
        if len(pairs) < n_measured:
            drawn = f"the {len(pairs)} strongest of {count(n_measured)} pairs"
        return DependenceDrawing(
            pieces=self.pieces,
            pairs=pairs,
            strongest=self._list_of_strongest().to_dict(),
            table=saved_table(self._table_of_pairs()),
            measured=n_measured,
            count=n_pairs,
            part=part,
            width=self._legend_of_width(),
            off=OFF,
            drawn=drawn,
            told=Told(by="mutual information, in nats", values=values),
        )

    def _legend_of_width(self) -> str:
        """What the width of an arc is; above WIDEST nats it does not tell how many there are."""
        _, _, most = self.measured[0]  # the verb raises if it measured no pair
        full_width = ""
        if most > WIDEST:
            full_width = f" (full width from {nats(WIDEST)} nats)"
        return f"the wider, the more mutual information: up to {nats(most)} nats here{full_width}"

    @cached_property
    def measured(self) -> list[tuple[int, int, float]]:
        """The measured pairs (i, j, nats), the most dependent first."""
        return self.dependence.pairs()

    # ---- tokens ----

    @cached_property
    def tokens(self) -> Tokens:
        """The text as tokens."""
        return self.model.words.tokens_of(self.dependence.text)

    @cached_property
    def places(self) -> list[int]:
        """Where the measured tokens stand."""
        first = self.tokens.inside[0]  # special tokens stand before it, and are not counted
        return [first + position - 1 for position in self.dependence.positions]

    @cached_property
    def pieces(self) -> list[Piece]:
        """The measured tokens."""
        pieces: list[Piece] = []
        names: set[str] = set()
        for place in self.places:
            letters = self._letters(place)
            own_word = self._words_of_places.get(place, [place])
            name = letters
            if len(own_word) > 1:
                name = f"{self._text(own_word[0], own_word[-1])} ({letters})"
            name = _another(name, names)  # a text may have a word twice
            names.add(name)
            pieces.append({"text": letters, "word": own_word[0], "name": name})
        return pieces

    @cached_property
    def _words_of_places(self) -> dict[int, list[int]]:
        """By the place of a token, the places of all tokens of its word. Empty for a text of single
        letters, each of which is a word of its own.
        """
        words: dict[int, list[int]] = {}
        if self.nouns.by_character:
            return words
        for places_of_word in by_word(self.tokens):
            for place in places_of_word:
                words[place] = places_of_word
        return words

    def _text(self, first: int, last: int) -> str:
        """The text of the tokens from a place to another one."""
        start = self.tokens.spans[first][0]
        end = self.tokens.spans[last][1]
        return self.dependence.text[start:end].strip()

    def _letters(self, place: int) -> str:
        """How a token is written.

        A residue has its number, and one that is a blank has its number alone. A word is written
        as in the text, and a blank by its number among the blanks.
        """
        is_blank = self.tokens.ids[place] == self.model.mask_id
        if self.nouns.by_character:
            position = place - self.tokens.inside[0] + 1
            if is_blank:
                return f"{self.nouns.unit} {position}"
            return f"{self._written(place)}{position}"
        if is_blank:
            ids_so_far = self.tokens.ids[: place + 1]
            return f"blank {ids_so_far.count(self.model.mask_id)}"
        return self._written(place)

    def _written(self, place: int) -> str:
        """A token as in the text; by its name if the tokenizer does not place it there."""
        return self._text(place, place) or self.model.token(self.tokens.ids[place])

    # ---- pairs ----

    def _both(self, i: int, j: int) -> str:
        """The name of the pair of two pieces."""
        return f"{self.pieces[i]['name']} – {self.pieces[j]['name']}"

    def _pair(self, i: int, j: int, joint: Joint) -> Pair:
        """The pair of two pieces."""
        positions = self.dependence.positions
        value = float(self.dependence.matrix[i, j])
        held = percent_at_least(float(self.dependence.mass[i, j]))
        both = self._both(i, j)
        return Pair(
            key=f"{positions[i]},{positions[j]}",
            i=i,
            j=j,
            name=both,
            title=f"{both}: {nats(value)} nats",
            caption=f"{nats(value)} nats; {held} of the mass held",
            share=min(1.0, value / WIDEST),
            off=incompatibility(joint.tables) > FAR,
            map=self._map(i, j, joint),
        )

    def _map(self, i: int, j: int, joint: Joint) -> Grid:
        """The map of a pair. The tokens that stand in the text are underlined, unless one of them
        is a blank.
        """
        ids = self.tokens.ids
        standing = (ids[self.places[i]], ids[self.places[j]])
        gold = None if self.model.mask_id in standing else standing
        # Only the joint is a layer; both laws choose the tokens, and are in the words of a cell.
        product = derived(joint.tables, named(INDEPENDENT))
        drawn = pair_map(joint, product, cells=cells_of(self.model, PAIR_CELLS), gold=gold)
        names = (self.pieces[i]["name"], self.pieces[j]["name"])
        return drawn.grid(names, layers=[JOINT], has_edges=False)

    # ---- tables ----

    def _list_of_strongest(self) -> Table:
        """A row for each of the strongest pairs."""
        columns = [
            Column(f"{self.nouns.unit}s", text=True),
            Column("nats", show=nats),
            Column("mass held", show=percent_at_least),
        ]
        rows = []
        for i, j, value in self.measured[:LISTED_PAIRS]:
            rows.append([self._both(i, j), value, float(self.dependence.mass[i, j])])
        return Table(columns, rows)

    def _table_of_pairs(self) -> Table:
        """A row for each measured pair."""
        columns = [
            Column("first", text=True),
            Column("second", text=True),
            Column("first_position"),
            Column("second_position"),
            Column("mutual_information"),
            Column("candidates_mass"),
        ]
        positions = self.dependence.positions
        rows = []
        for i, j, value in self.measured:
            names = [self.pieces[i]["name"], self.pieces[j]["name"]]
            mass = float(self.dependence.mass[i, j])
            rows.append([*names, positions[i], positions[j], value, mass])
        return Table(columns, rows)


def _another(name: str, taken: set[str]) -> str:
    """A name that is not taken: itself, or with (2), (3) and so on behind it."""
    free = name
    number = 1
    while free in taken:
        number += 1
        free = f"{name} ({number})"
    return free
