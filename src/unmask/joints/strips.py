"""The likely tokens of pairs, and their rows and columns of the tables: strips.

A few hundred tokens of each blank hold nearly all of the mass. `unmask.joints.newton` solves their
equations exactly, and reads the tables' other cells only where these meet a likely token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from unmask.joints.stacks import aligned_zeros, triton_serves
from unmask.joints.tiles import Tile, by_threads
from unmask.tables.unary import Tables

LIKELY = 128  # Tokens of a blank that each of the three measures chooses
MEASURES = 3
PADDED = 32
"""Places for likely tokens come in multiples of this for several pairs, and wherever Triton sums:
one program sums all strips.
"""


@dataclass(frozen=True)
class Strips:
    """The tokens of both blanks of each pair that may come to hold mass, and their rows and columns
    of the tables as probabilities.

    x, y    the tokens; a place that is not used is one past the last token
    ab      the cells of both tables where a likely x meets a likely y; zero at places that are
            not used
    row_*   the rows of x without those cells; column_* the columns of y
    counts  for each pair the numbers of its likely x and y
    """

    x: Int[Tensor, "blocks x"]
    y: Int[Tensor, "blocks y"]
    ab: Float[Tensor, "blocks 2 x y"]
    row_a: Float[Tensor, "blocks x m"]
    row_b: Float[Tensor, "blocks x m"]
    column_a: Float[Tensor, "blocks n y"]
    column_b: Float[Tensor, "blocks n y"]
    counts: tuple[tuple[int, int], ...]

    def share(self, block: int) -> float:
        """Cells of the strips over cells of a table: the share of a read of the tables that one
        solve of the likely tokens adds. Zero if all tokens are likely.
        """
        n = self.column_a.shape[1]
        m = self.row_a.shape[2]
        x, y = self.counts[block]
        return (x * m + n * y - 2 * x * y) / (n * m)


def strips(blocks: Sequence[Tables]) -> Strips:
    """The likely tokens of each pair, and their rows and columns of the tables.

    Of a vocabulary of at most three times LIKELY, all tokens are likely. Of a larger one those are
    chosen that are among the LIKELY tokens with

    1. the largest probability when the whole block is masked,
    2. the largest mean conditional over all contexts, or
    3. the largest sum_y A[x, y] B[x, y]: two tokens that determine each other may end up likely
       from however small a start.
    """
    likely_x = []
    likely_y = []
    for tables, (measures_x, measures_y) in zip(blocks, _measures(blocks), strict=True):
        likely_x.append(_chosen([tables.log_masked[0], *measures_x]))
        likely_y.append(_chosen([tables.log_masked[1], *measures_y]))
    n, m = blocks[0].shape
    like = blocks[0].log_q[0]
    padded = len(blocks) > 1 or triton_serves(*blocks)
    x_places = _places(likely_x, n, padded)
    y_places = _places(likely_y, m, padded)
    pairs = len(blocks)
    ab = like.new_zeros((pairs, 2, x_places, y_places), dtype=torch.float64)
    rows = [aligned_zeros(like, pairs, (x_places, m)) for _ in range(2)]
    columns = [aligned_zeros(like, pairs, (n, y_places)) for _ in range(2)]
    for pair, (tables, x, y) in enumerate(zip(blocks, likely_x, likely_y, strict=True)):
        for t, log_q in enumerate(tables.log_q):
            ab[pair, t, : len(x), : len(y)] = log_q[x][:, y].double().exp()
            rows[t][pair, : len(x)] = log_q[x].exp_().index_fill_(1, y, 0)
            columns[t][pair, :, : len(y)] = log_q[:, y].exp_().index_fill_(0, x, 0)
    return Strips(
        x=_in_places(likely_x, x_places, unused=n),
        y=_in_places(likely_y, y_places, unused=m),
        ab=ab,
        row_a=rows[0],
        row_b=rows[1],
        column_a=columns[0],
        column_b=columns[1],
        counts=tuple((len(x), len(y)) for x, y in zip(likely_x, likely_y, strict=True)),
    )


def taken_whole(tokens: int) -> bool:
    """Whether all tokens of a blank are likely ones."""
    return tokens <= MEASURES * LIKELY


class _Measures(NamedTuple):
    """For each token of one blank, summed over the tokens of the other: its own conditional, and
    A B.
    """

    conditional: Float[Tensor, " n"]
    both: Float[Tensor, " n"]


def _measures(blocks: Sequence[Tables]) -> list[tuple[_Measures, _Measures]]:
    """The measures of x and those of y, for each pair; one read of the tables."""
    if not triton_serves(*blocks):
        return [_measures_by_tiles(tables) for tables in blocks]
    from unmask.joints.triton_programs import table_sums

    measures = []
    for rows, columns in table_sums(blocks):
        of_x = _Measures(conditional=rows.a, both=rows.both)
        of_y = _Measures(conditional=columns.b, both=columns.both)
        measures.append((of_x, of_y))
    return measures


def _measures_by_tiles(tables: Tables) -> tuple[_Measures, _Measures]:
    """The measures of x and those of y of one pair, in float64 for y."""
    log_a, log_b = tables.log_q

    def sums(part: Sequence[Tile]) -> tuple[Float[Tensor, "2 x"], Float[Tensor, "2 m"]]:
        of_rows = []
        of_columns = torch.zeros((2, log_a.shape[1]), dtype=torch.float64, device=log_a.device)
        for index in part:
            a = log_a[index].exp()
            b = log_b[index].exp()
            both = a * b
            of_rows.append(torch.stack([a.sum(1), both.sum(1)]))
            of_columns += torch.stack([b.sum(0), both.sum(0)])
        return torch.cat(of_rows, 1), of_columns

    of_rows, of_columns = zip(*by_threads(log_a, sums), strict=True)
    return _Measures(*torch.cat(of_rows, 1)), _Measures(*torch.stack(of_columns).sum(0))


def _chosen(measures: Sequence[Float[Tensor, " n"]]) -> Int[Tensor, " chosen"]:
    """The tokens, in rising order, that are among the LIKELY largest of a measure; or all."""
    tokens = len(measures[0])
    if taken_whole(tokens):
        return torch.arange(tokens, device=measures[0].device)
    largest = [measure.topk(LIKELY).indices for measure in measures]
    chosen: Tensor = torch.cat(largest).unique()
    return chosen


def _places(chosen: Sequence[Tensor], tokens: int, padded: bool) -> int:
    """Enough places for the likely tokens of every pair; no more than there are tokens."""
    most = max(len(of_pair) for of_pair in chosen)
    if not padded:
        return most
    return min(tokens, -(-most // PADDED) * PADDED)


def _in_places(chosen: Sequence[Tensor], places: int, unused: int) -> Int[Tensor, "pairs places"]:
    """The likely tokens of each pair, and `unused` in the places that are left."""
    rows = []
    for of_pair in chosen:
        rows.append(functional.pad(of_pair, (0, places - len(of_pair)), value=unused))
    return torch.stack(rows)
