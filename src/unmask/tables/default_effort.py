"""How many candidates a blank has, where the user gives no number.

A small vocabulary is taken whole. A larger one is cut down to what the model can pass in
DEFAULT_SECONDS. The time of a pass is computed from the model's size, at SPEED multiplications
per second: a measured speed would vary with the machine's load, and so would the answer. For a
pair and a model as small as the bundled one, 512 candidates are left.
"""

from __future__ import annotations

from typing import NamedTuple

from unmask.common.cloze import Cloze
from unmask.models.conditional_model import ConditionalModel
from unmask.tables.candidate_scores import NEIGHBOURS, score_passes
from unmask.tables.joint_limits import is_feasible, largest_feasible
from unmask.tables.unary import pass_count

SMALL_VOCABULARY = 64
"""A vocabulary of at most this many regular tokens (amino acids, characters) is taken whole, if
the limits allow it.
"""
LARGEST_DEFAULT = 512  # candidates of a blank
DEFAULT_PASSES = 1500  # that the tables of a default answer may take, with a fast model
DEFAULT_SECONDS = 3.5
"""Limit of a default answer, as `seconds_per_pass` estimates it. Most answers take about two."""
FEWEST_PASSES = 24  # a limit as low as this is not halved again, however slow the model is
SPEED = {"cpu": 50e9, "cuda": 1e13}
"""Multiplications per second of two ordinary cores, and of an ordinary GPU."""


class Effort(NamedTuple):
    """What a joint's passes are spent on.

    size         how many candidates each blank has
    neighbours   how many likely tokens of every other blank their score looks at
    """

    size: int
    neighbours: int = NEIGHBOURS

    def passes(self, sites: int) -> int:
        """Passes of the model, for the scores and for the tables of `sites` blanks."""
        return score_passes(sites, self.neighbours) + pass_count([self.size] * sites)


def default_effort(model: ConditionalModel, cloze: Cloze, vocabulary: int) -> Effort:
    """The effort where the user gives no number; `vocabulary`: how many tokens a blank may have."""
    sites = len(cloze.block)
    if vocabulary <= SMALL_VOCABULARY and is_feasible([vocabulary] * sites):
        return Effort(size=vocabulary)
    return affordable_effort(sites, vocabulary, seconds_per_pass(model, len(cloze.ids)))


def affordable_effort(sites: int, vocabulary: int, seconds: float) -> Effort:
    """The effort of the first limit, of DEFAULT_PASSES, a half, a quarter, ..., with which an
    answer takes at most DEFAULT_SECONDS at `seconds` per pass.

    If none does, it is that of the first limit that is at most FEWEST_PASSES.
    """
    limit = DEFAULT_PASSES
    effort = _effort_within(limit, sites, vocabulary)
    while seconds * effort.passes(sites) > DEFAULT_SECONDS and limit > FEWEST_PASSES:
        limit //= 2
        effort = _effort_within(limit, sites, vocabulary)
    return effort


def _effort_within(limit: int, sites: int, vocabulary: int) -> Effort:
    """The candidates whose tables take at most `limit` passes, and the neighbours in proportion:
    all NEIGHBOURS at DEFAULT_PASSES. There are at least 2 of both, if the vocabulary has 2.
    """
    size = default_size(sites, limit)
    neighbours = max(2, NEIGHBOURS * limit // DEFAULT_PASSES)
    return Effort(size=min(size, vocabulary), neighbours=min(neighbours, vocabulary))


def default_size(sites: int, passes: int = DEFAULT_PASSES) -> int:
    """The largest number of candidates per blank, up to LARGEST_DEFAULT, whose tables take at
    most this many passes; at least 2.
    """
    return max(2, largest_feasible(sites, LARGEST_DEFAULT, passes))


def seconds_per_pass(model: ConditionalModel, tokens: int) -> float:
    """About how many seconds one pass of a text of `tokens` tokens takes, in batches; 0 for a model
    that does not say how much it computes.
    """
    speed = SPEED.get(model.device.type, SPEED["cuda"])
    return (model.multiplications(tokens) or 0) / speed
