"""The scores by name: what each is, whether it is a probability, and where it is computed.

Write q(x_i | x_S) for the model's probability of token x_i where the tokens of S are revealed and all other sites masked.
"A probability" means that exp(score) sums to 1 over all texts of the same length in regular tokens, so that scores of one length
can be compared as odds and divided by log 2 to give bits; a score that is none can rank, but its size has no such meaning.

A model gives some probability to special tokens, which cannot stand in a text. So q is normalised over the regular tokens in all
chain rules and joints, as in `fill`; NAME_special is by how many nats a score is lower with q over the whole vocabulary.
Pseudo-likelihoods and energies keep the whole vocabulary, as they are published and as other tools compute them.
Nothing here imports torch: a score's family is loaded when it is used. A family computes several scores from shared passes.
"""

from __future__ import annotations

from dataclasses import dataclass

from unmask.checks import one_of
from unmask.errors import InputError


@dataclass(frozen=True)
class Score:
    """One score.

    definition    a sentence with its formula, and what q is normalised over
    probability   whether exp(score) sums to 1 over the texts of a length
    why           in a few words, why that is so
    family        "module:function" that computes it, together with the others of its family
    unknown       whether texts with tokens that the model does not know have one
    by_token      whether it is a sum over tokens, so that each token and word has its share
    windows       whether texts longer than the model can be scored in windows
    better        1 where a higher value is a better text, -1 where a lower one is
    options       arguments of `score` that it reads
    extra         further columns that come with it, named NAME_suffix
    """

    name: str
    definition: str
    probability: bool
    why: str
    family: str
    unknown: bool = False
    by_token: bool = False
    windows: bool = False
    better: int = 1
    options: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()


_RANGES = "unmask.scoring.masked_ranges:score_ranges"
_ADAPTIVE = "unmask.scoring.adaptive_orders:score_adaptive"
_ORDERS = "unmask.scoring.all_orders:score_orders"
_UNNORMALISED = "exp(-E) has no normaliser"
_REGULAR, _WHOLE = "q over the regular tokens", "q over the whole vocabulary"
_SPECIAL = ("special",)
_NO_LOOK = "the rule sees the revealed tokens only, so each step is a conditional probability of the next"

_ENERGIES = {
    "energy_raw": "- sum over t of the logit f_t(x_t), position t masked alone",
    "energy_norm": f"- sum over t of log q(x_t | all other tokens) = -pll, {_WHOLE}",
}
_FIXED_ORDERS = {
    "left_to_right": "from the first token to the last: sum over t of log q(x_t | x_1 .. x_{t-1})",
    "right_to_left": "from the last token to the first: sum over t of log q(x_t | x_{t+1} .. x_T)",
}
_ADAPTIVE_ORDERS = {
    "confident": "likeliest token has the highest probability",
    "margin": "two likeliest tokens lie furthest apart in probability",
    "open": "distribution has the highest entropy",
}
SCORES: dict[str, Score] = {
    score.name: score
    for score in (
        Score(
            "pll",
            f"pseudo-log-likelihood: sum over t of log q(x_t | all other tokens), {_WHOLE}",
            False,
            "the conditionals overlap; two tokens that always agree count each other's information twice",
            _RANGES,
            unknown=True,
            by_token=True,
            windows=True,
        ),
        Score(
            "pll_word",
            f"as pll, with the later pieces of the same word masked along with x_t (Kauf & Ivanova 2023), {_WHOLE}",
            False,
            "within a word it is a chain rule, between words the conditionals overlap as those of pll",
            _RANGES,
            unknown=True,
            by_token=True,
            windows=True,
        ),
        *(
            Score(name, f"E(x) = {what}; lower is better", False, _UNNORMALISED, _RANGES, by_token=True, windows=True, better=-1)
            for name, what in _ENERGIES.items()
        ),
        *(
            Score(
                name,
                f"chain rule {way}, {_REGULAR}",
                True,
                "the chain rule in a fixed order",
                _RANGES,
                by_token=True,
                windows=True,
                extra=_SPECIAL,
            )
            for name, way in _FIXED_ORDERS.items()
        ),
        *(
            Score(
                name,
                f"chain rule, next the hidden site whose {which}, {_REGULAR}",
                True,
                _NO_LOOK,
                _ADAPTIVE,
                by_token=True,
                extra=_SPECIAL,
            )
            for name, which in _ADAPTIVE_ORDERS.items()
        ),
        Score(
            "any_order",
            f"log of the mean over all orders of the chain rule's probability, {_REGULAR}; any_order_mean_log: mean of the logs",
            True,
            "a mean of probabilities",
            _ORDERS,
            options=("exact_tokens", "orders", "seed"),
            extra=("se", "mean_log", *_SPECIAL),
        ),
        Score(
            "order_bounds",
            f"chain rule in the best order; order_bounds_worst in the worst; any_order lies between; {_REGULAR}",
            False,
            "which order is best depends on the hidden tokens",
            _ORDERS,
            options=("exact_tokens", "orders", "seed"),
            extra=("worst", "exact"),
        ),
        Score(
            "pair",
            "sum of log mu_i(x_i, x_{i+1}) over adjacent pairs minus log of their shared marginals, mu_i a derived joint, "
            + _REGULAR,
            False,
            "the pairs' contexts overlap, as those of pll do",
            "unmask.scoring.pair_joints:score_pairs",
            options=("joint", "candidates"),
        ),
        Score(
            "log_prob",
            "-E(x) - log Z over the texts of this length in regular tokens, log Z by enumeration or between annealed importance "
            "sampling's bounds; E as in energy_raw or energy_norm",
            True,
            "normalised by Z, within the bounds log_prob_low and log_prob_high",
            "unmask.scoring.log_prob:score_log_prob",
            options=("energy", "chains", "anneals", "seed"),
            extra=("low", "high", "exact"),
        ),
    )
}


def chosen(score: str | list[str] | tuple[str, ...]) -> tuple[str, ...]:
    """The names asked for, "pll,any_order" or a list of them, each once; an unknown one is refused with the nearest."""
    given = [part.strip() for part in score.split(",")] if isinstance(score, str) else list(score)
    if not given or given == [""]:
        raise InputError(f"no score was asked for: name one or more of {', '.join(SCORES)}")
    return tuple(dict.fromkeys(one_of("score", name, SCORES) for name in given))
