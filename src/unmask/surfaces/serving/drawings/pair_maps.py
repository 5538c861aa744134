"""The map of two blanks: the probability of each pair of tokens under their joint, and under the
product, by which the blanks are independent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import copysign, sqrt
from typing import TYPE_CHECKING

import torch

from unmask.common.formats import count, number
from unmask.common.result_tables import Column, Table
from unmask.joints.joint import Joint
from unmask.surfaces.serving.drawings.shapes import (
    Cell,
    Grid,
    Head,
    Layer,
    head,
    largest_size,
    part_of,
    percent_of,
)

if TYPE_CHECKING:
    from unmask.models.masked_lm import MaskedLM

Rows = list[list[float]]
SMALL = 40  # tokens of a vocabulary that a map shows as a whole
LABEL = "heat map of the two blanks"
EDGES = ["along the edges: one blank alone", "the line is for independent blanks"]
JOINT = "joint"
PRODUCT = "product"
DIFFERENCE = "difference"
ROUNDING = 1e-6
"""Differences up to this part of the largest probability are rounding errors of float32."""
SPACE = "␣"
"""How a token of spaces is shown."""


@dataclass(frozen=True)
class Axis:
    """The tokens of one blank that a map shows, likeliest first.

    ids           their token ids
    tokens        how they are spelled
    marginal      their probabilities under the joint, with the other blank unknown
    independent   their probabilities if the blanks were independent
    gold          the id of the token that stood there; None where it is unknown
    """

    ids: list[int]
    tokens: list[str]
    marginal: list[float]
    independent: list[float]
    gold: int | None

    @property
    def shows_gold(self) -> bool:
        """Whether the token that stood there is among those that are shown."""
        return self.gold in self.ids


@dataclass(frozen=True)
class PairMap:
    """The probabilities that the map of two blanks shows.

    law        the name of the construction of the joint
    axes       the tokens of the first blank, the rows, and of the second, the columns
    joint      the probability of each cell under the joint, by row and column
    product    the probability of each cell if the blanks were independent
    is_whole   whether every candidate is on the map
    """

    law: str
    axes: tuple[Axis, Axis]
    joint: Rows
    product: Rows
    is_whole: bool

    def grid(
        self,
        names: tuple[str, str] = ("blank 1", "blank 2"),
        layers: Sequence[str] = (JOINT, PRODUCT, DIFFERENCE),
        has_edges: bool = True,
    ) -> Grid:
        """The map as coloured cells.

        names       of the two blanks
        layers      the layers that it has, of joint, product and difference; the first is shown
        has_edges   whether bars along the edges show the probabilities of each blank alone
        """
        rows, columns = self.axes
        longest = self._longest_bar() if has_edges else None
        return {
            "label": LABEL,
            "corner": names,
            "rows": _heads(rows, names[0], longest),
            "columns": _heads(columns, names[1], longest),
            "layers": [self._layer(name) for name in layers],
            "shown": layers[0],
            "cells": self._cells(),
            "edges": EDGES if has_edges else [],
        }

    def _longest_bar(self) -> float:
        """The largest probability of a bar, or of the line on one, along both edges."""
        rows, columns = self.axes
        return max(*rows.marginal, *rows.independent, *columns.marginal, *columns.independent)

    def table(self) -> Table:
        """A row for each cell: both tokens, and their probability under joint and product."""
        columns = [
            Column("first", text=True),
            Column("second", text=True),
            Column(self.law, percent_of),
            Column(PRODUCT, percent_of),
        ]
        rows: list[list[object]] = []
        first, second = self.axes
        for i, row_token in enumerate(first.tokens):
            for j, column_token in enumerate(second.tokens):
                rows.append([row_token, column_token, self.joint[i][j], self.product[i][j]])
        return Table(columns, rows)

    def note(self) -> str:
        """How many of the candidates are on the map, in a sentence."""
        if self.is_whole:
            shown = "The map shows all tokens considered"
        else:
            rows, columns = self.axes
            shown = (
                f"The map shows {len(rows.ids)} x {len(columns.ids)} of the tokens considered: of"
                f" each blank the likeliest on average of {self.law} and of independent blanks"
            )
        if any(axis.shows_gold for axis in self.axes):
            shown += "; what stood there is underlined"
        return f"{shown}."

    def _layer(self, name: str) -> Layer:
        layers = {
            JOINT: self._layer_of_joint,
            PRODUCT: self._layer_of_product,
            DIFFERENCE: self._layer_of_differences,
        }
        return layers[name]()

    def _layer_of_joint(self) -> Layer:
        return _layer_of_probabilities(
            self.joint,
            self._largest_probability(),
            name=JOINT,
            label="Joint",
            meaning="Probability under the joint",
            scale="probability of the pair",
        )

    def _layer_of_product(self) -> Layer:
        return _layer_of_probabilities(
            self.product,
            self._largest_probability(),
            name=PRODUCT,
            label="Independent",
            meaning="Probability if the blanks were independent",
            scale="probability if independent",
        )

    def _largest_probability(self) -> float:
        """The end of the scale that joint and product share: the largest probability of either."""
        return largest_size([*self.joint, *self.product])

    def _layer_of_differences(self) -> Layer:
        differences: Rows = []
        for of_joint, of_product in zip(self.joint, self.product, strict=True):
            pairs = zip(of_joint, of_product, strict=True)
            differences.append([joint - product for joint, product in pairs])
        largest = largest_size(differences)
        if largest <= ROUNDING * self._largest_probability():  # no colour for rounding errors
            differences = [[0.0] * len(row) for row in differences]
            largest = 0.0
        size = percent_of(largest)
        return {
            "name": DIFFERENCE,
            "label": "Difference",
            "meaning": "The joint minus independent blanks",
            "shares": _root_shares(differences, largest),
            "signed": True,
            "scale": "joint minus independent",
            "ticks": [(0.0, f"-{size}"), (0.5, "0"), (1.0, f"+{size}")],
        }

    def _cells(self) -> list[list[Cell]]:
        rows, columns = self.axes
        cells = []
        for i, first in enumerate(rows.tokens):
            of_row: list[Cell] = []
            for j, second in enumerate(columns.tokens):
                name = f"{shown_token(first)} … {shown_token(second)}"
                numbers = self._numbers(self.joint[i][j], self.product[i][j])
                of_row.append({"name": name, "numbers": numbers})
            cells.append(of_row)
        return cells

    def _numbers(self, joint: float, product: float) -> str:
        """The probabilities of a cell under both laws, and their ratio."""
        numbers = f"{percent_of(joint)} under {self.law}, {percent_of(product)} if independent"
        if product > 0:
            numbers += f" ({_times(joint / product)} times)"
        return numbers


def cells_of(model: MaskedLM, cells: int) -> int:
    """How many cells lie along each edge of a map: `cells`, or all of a small vocabulary. Each is
    that of a token.
    """
    vocabulary = len(model.regular_ids)
    return vocabulary if vocabulary <= SMALL else cells


def pair_map(
    joint: Joint, product: Joint, cells: int, gold: Sequence[int] | None = None
) -> PairMap:
    """The map of two blanks under a joint, and under the product of the same tables.

    cells    how many cells lie along each edge: their tokens are those with the highest marginal of
             the joint and of the product on average
    gold     the ids of the two tokens that stood there: they are shown, however unlikely, if they
             are candidates
    """
    first = _axis(joint, product, blank=0, cells=cells, gold=gold)
    second = _axis(joint, product, blank=1, cells=cells, gold=gold)
    fillings = torch.cartesian_prod(torch.tensor(first.ids), torch.tensor(second.ids))
    size = (len(first.ids), len(second.ids))
    is_whole = size == tuple(joint.shape)
    return PairMap(
        law=joint.name,
        axes=(first, second),
        joint=joint.log_prob(fillings).reshape(size).exp().tolist(),
        product=product.log_prob(fillings).reshape(size).exp().tolist(),
        is_whole=is_whole,
    )


def shown_token(token: str) -> str:
    """A token without the spaces around it; a sign if nothing else is in it."""
    return token.strip() or SPACE


def _axis(
    joint: Joint, product: Joint, *, blank: int, cells: int, gold: Sequence[int] | None
) -> Axis:
    candidates = joint.tables.candidates[blank]
    marginal = joint.marginals()[blank]
    independent = product.marginals()[blank]
    weight = marginal + independent  # twice the average
    gold_of_blank = None
    if gold is not None:
        gold_of_blank = gold[blank]
        is_gold = (candidates == gold_of_blank).to(weight.device)
        weight = weight.masked_fill(is_gold, torch.inf)  # it is among the chosen, however unlikely
    chosen = weight.topk(min(cells, joint.shape[blank])).indices  # places among the candidates
    likeliest_first = marginal[chosen].argsort(descending=True)
    places = chosen[likeliest_first]
    ids = candidates[places.to(candidates.device)].tolist()
    return Axis(
        ids=ids,
        tokens=[joint.tables.spelled(blank, token) for token in ids],
        marginal=marginal[places].tolist(),
        independent=independent[places].tolist(),
        gold=gold_of_blank,
    )


def _heads(axis: Axis, name: str, longest: float | None) -> list[Head]:
    """The rows or columns of a blank.

    name      of the blank
    longest   the probability of a bar over the whole edge; None: the heads have no bars
    """
    heads: list[Head] = []
    for place, token in enumerate(axis.tokens):
        label = shown_token(token)
        marginal = axis.marginal[place]
        bar = None
        if longest is not None:
            bar = (part_of(marginal, longest), part_of(axis.independent[place], longest))
        title = f"{label} in {name}: {percent_of(marginal)}"
        stands = axis.ids[place] == axis.gold
        heads.append(head(axis.ids[place], label, title, token=token, bar=bar, stands=stands))
    return heads


def _layer_of_probabilities(
    probabilities: Rows, largest: float, *, name: str, label: str, meaning: str, scale: str
) -> Layer:
    # A share is the root of p / largest: 0.5, the middle of the scale, is that of a quarter.
    middle = percent_of(largest / 4)
    return {
        "name": name,
        "label": label,
        "meaning": meaning,
        "shares": _root_shares(probabilities, largest),
        "signed": False,
        "scale": scale,
        "ticks": [(0.0, "0"), (0.5, middle), (1.0, percent_of(largest))],
    }


def _root_shares(values: Rows, largest: float) -> list[list[float | None]]:
    """sign(v) sqrt(|v| / largest) of each value v. By the root small values are seen, too."""
    shares: list[list[float | None]] = []  # as a layer has them: here no cell is empty
    for row in values:
        of_row: list[float | None] = []
        for value in row:
            root = part_of(sqrt(abs(value)), sqrt(largest))
            of_row.append(copysign(root, value))
        shares.append(of_row)
    return shares


def _times(ratio: float) -> str:
    """A ratio in two digits; from ten to a million as a whole number."""
    if 10 <= ratio < 1e6:
        return count(round(ratio))
    return number(ratio, ".2g")
