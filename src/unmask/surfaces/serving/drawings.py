"""What the page draws beside a result: maps of pairs, the words of a text, shares of scores.

Every number is one of the result's, or of the joint that it was computed from. Thresholds and
directions are those of the rooms to the left.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from unmask.common.formats import nats, percent_at_least
from unmask.joints.deriving import derived
from unmask.joints.incompatibility import incompatibility
from unmask.joints.joint import Joint, conditional
from unmask.joints.registry import INDEPENDENT, named
from unmask.surfaces.serving.texts import by_word

if TYPE_CHECKING:
    from unmask.models.masked_lm import MaskedLM
    from unmask.verbs.dependence import Dependence
    from unmask.verbs.score import Scores

Drawing = dict[str, Any]
SMALL = 40  # tokens of a vocabulary that a map shows as a whole
PAIR_CELLS = 7  # tokens along the edges of the map of one of many pairs
DRAWN_PAIRS = 40  # of the strongest pairs there are arcs and maps
FAR = 1.4
"""Nats from which on the conditionals of a pair are called far from any joint: over 40 pairs of
blanks in sentences of English Web Treebank, 39 verdicts are those of the number used before.
"""
MUTANT_NUMBERS = {
    "effect": "log-probability of the mutant minus that of the sequence",
    "singles": "the sum of the effects of each change alone",
    "epistasis": "the effect minus the singles: 0 where the changes add up",
    "interaction": "the same difference inside the joint",
}
"""The numbers of a mutant that the page colours, and what they are."""


# ---- the joint of two blanks ----


def cells_of(model: MaskedLM, cells: int) -> int:
    """Tokens along each edge of a map: `cells`, or all of a small vocabulary."""
    vocabulary = len(model.regular_ids)
    return vocabulary if vocabulary <= SMALL else cells


def pair_map(
    joint: Joint,
    product: Joint,
    cells: int,
    gold: Sequence[int] | None = None,
    pinned: tuple[int, int] | None = None,
) -> Drawing:
    """The map of two blanks under a joint, beside the product over the same tables.

    cells    tokens along each edge: those with the highest marginal of the joint and of the
             product on average
    gold     the ids of the two tokens that stood there, which are always shown
    pinned   (blank, token id): the first blank is 0

    axes      of each blank the tokens shown, likeliest first, and their probabilities with the
              other blank unknown; `stands` is the id of its gold token
    joint     probabilities of the cells, rows of the first blank; `product`: with independent
              blanks
    shown     how many of the candidates are on the map, in a sentence
    given     the likeliest tokens y of the other blank with x pinned: mu(y | x), mu(y) before,
              and the model's own q(y | x)
    """
    axes = [_axis(joint, product, blank, cells, gold) for blank in (0, 1)]
    rows = torch.cartesian_prod(*[torch.tensor(axis["ids"]) for axis in axes])
    size = (len(axes[0]["ids"]), len(axes[1]["ids"]))
    given = None
    if pinned is not None:
        blank, token = pinned
        given = _with_pinned(joint, blank, token, cells)
    return {
        "axes": axes,
        "joint": joint.log_prob(rows).reshape(size).exp().tolist(),
        "product": product.log_prob(rows).reshape(size).exp().tolist(),
        "shown": _shown_cells(joint, size, gold),
        "given": given,
    }


def pinned_token(joint: Joint, blank: int, word: str) -> tuple[int, int] | None:
    """(blank, id) of a word among the candidates of a blank; None if it is not among them."""
    for token in joint.tables.candidates[blank].tolist():
        if joint.tables.spelled(blank, token) == word:
            return blank, token
    return None


def _axis(
    joint: Joint, product: Joint, blank: int, cells: int, gold: Sequence[int] | None
) -> Drawing:
    marginal = joint.marginals()[blank]
    apart = product.marginals()[blank]
    weight = marginal + apart
    if gold is not None:
        stands = joint.tables.candidates[blank] == gold[blank]
        weight = weight.masked_fill(stands.to(weight.device), torch.inf)
    places = weight.topk(min(cells, joint.shape[blank])).indices
    places = places[marginal[places].argsort(descending=True)]
    return {
        **_tokens(joint, blank, places),
        "marginal": marginal[places].tolist(),
        "product": apart[places].tolist(),
        "stands": None if gold is None else gold[blank],
    }


def _shown_cells(joint: Joint, size: tuple[int, int], gold: Sequence[int] | None) -> str:
    stands = "" if gold is None else "; what stood there is underlined"
    if size == tuple(joint.shape):
        return f"The map shows all tokens considered{stands}."
    rows, columns = size
    return (
        f"The map shows {rows} x {columns} of the tokens considered: of each blank the likeliest"
        f" on average of {joint.name} and of independent blanks{stands}."
    )


def _with_pinned(joint: Joint, blank: int, token: int, cells: int) -> Drawing:
    other = 1 - blank
    given_token = conditional(joint, other, [token])
    places = given_token.topk(min(cells, len(given_token))).indices
    at = int((joint.tables.candidates[blank] == token).nonzero()[0])
    model = joint.tables.log_q[other].select(blank, at).exp()
    return {
        "blank": blank,
        "token": joint.tables.spelled(blank, token),
        **_tokens(joint, other, places),
        "given": given_token[places].tolist(),
        "marginal": joint.marginals()[other][places].tolist(),
        "model": model[places].tolist(),
    }


def _tokens(joint: Joint, blank: int, places: Tensor) -> Drawing:
    ids = joint.tables.candidates[blank][places].tolist()
    return {"ids": ids, "tokens": [joint.tables.spelled(blank, i) for i in ids]}


# ---- the dependence of the words of a text ----


class StrongestJoints:
    """The joints of the strongest pairs of a text, as `dependence` finds them."""

    def __init__(self) -> None:
        self.joints: dict[tuple[int, int], Joint] = {}
        self._information: dict[tuple[int, int], float] = {}

    def look(self, first: int, second: int, joint: Joint) -> None:
        """Keep the joint of a pair, if it is one of the strongest so far."""
        self._information[first, second] = joint.mutual_information()
        self.joints[first, second] = joint
        if len(self.joints) > DRAWN_PAIRS:
            weakest = min(self.joints, key=lambda pair: self._information[pair])
            del self.joints[weakest]


def drawn_dependence(
    dependence: Dependence, joints: StrongestJoints, model: MaskedLM, noun: str
) -> Drawing:
    """The words measured, and the pairs that were: strongest first, the first ones with the map
    of the very joint that their number is of.
    """
    text = dependence.text
    tokens = model.words.tokens_of(text)
    places = [position - 1 + tokens.inside[0] for position in dependence.positions]
    gold = [tokens.ids[place] for place in places]
    pieces = _pieces(model, text, tokens, places, noun)
    pairs = []
    for i, j, value in dependence.pairs():
        joint = joints.joints.get((i, j))
        pair = {
            "i": i,
            "j": j,
            "value": value,
            "shown": nats(value),
            "mass": float(dependence.mass[i, j]),
            "held": percent_at_least(float(dependence.mass[i, j])),
        }
        if joint is not None:
            stood = None
            if model.mask_id not in (gold[i], gold[j]):
                stood = [gold[i], gold[j]]
            product = derived(joint.tables, named(INDEPENDENT))
            cells = cells_of(model, PAIR_CELLS)
            pair["map"] = pair_map(joint, product, cells=cells, gold=stood)
            pair["incompatibility"] = incompatibility(joint.tables)
        pairs.append(pair)
    return {
        "pieces": pieces,
        "pairs": pairs,
        "measured": len(pairs),
        "count": comb(len(places), 2),
        "far": FAR,
        "far_in_words": f"conditionals more than {FAR} nats (root mean square) from any joint",
    }


def _pieces(
    model: MaskedLM, text: str, tokens: Any, places: Sequence[int], noun: str
) -> list[Drawing]:
    """The measured tokens: letters in the text, the first token of the word, and the name in
    lists of each.
    """
    letters = model.words.by_character
    words = {}
    if not letters:
        words = {place: word for word in by_word(tokens) for place in word}
    pieces = []
    for place in places:
        own_word = words.get(place, [place])
        number = place - tokens.inside[0] + 1
        piece = text[slice(*tokens.spans[place])].strip() or model.token(tokens.ids[place])
        if tokens.ids[place] == model.mask_id:
            blank = number if letters else tokens.ids[: place + 1].count(model.mask_id)
            piece = f"{noun} {blank}" if letters else f"blank {blank}"
        elif letters:
            piece = f"{piece}{number}"
        name = piece
        if len(own_word) > 1:
            word = text[tokens.spans[own_word[0]][0] : tokens.spans[own_word[-1]][1]].strip()
            name = f"{word} ({piece})"
        pieces.append({"text": piece, "word": own_word[0], "name": name})
    return pieces


# ---- scores word by word ----


def drawn_scores(scores: Scores) -> Drawing:
    """Of each score that is a sum over tokens the column that counts against a text, and of two
    texts how much each row of `difference` speaks for the first.
    """
    by_token = [score for score in scores.shape.scores if score.by_token]
    rows = []
    for_first: dict[str, list[float]] = {}
    if len(scores) == 2 and all(row["reason"] is None for row in scores.rows):
        rows = scores.difference()
        for score in scores.by_token():
            differences = [row[f"{score.name}_difference"] for row in rows]
            for_first[score.name] = [score.better * difference for difference in differences]
    return {
        "against": {score.name: score.share_column for score in by_token},
        "difference": rows,
        "for_first": for_first,
    }
