"""The scores by name: what each is, whether it is a probability, and where it is computed.

Write q(x_i | x_S) for the model's probability of token x_i where the tokens of S are revealed and all other sites masked.
"A probability" means that exp(score) sums to 1 over all texts of the same length in regular tokens, so that scores of one length
can be compared as odds and divided by log 2 to give bits; any other score can rank texts, but its size has no such meaning.

A model gives some probability to special tokens, which cannot occur in a text. So q is normalised over the regular tokens in all
chain rules and joints, as in `fill`; NAME_special is by how many nats a score is lower with q over the whole vocabulary.
Pseudo-likelihoods and energies keep the whole vocabulary, as they are published and as other tools compute them.
Nothing here imports torch: the function of a family is loaded when it is used.

Variants x of a parent w differ from it at some of k sites, and every other token is the parent's. Their scores are those of texts
with t over the sites and q over the alphabet (OF_VARIANTS), and a few more that need the parent's neighbours only. A score is a
list of chains. A chain is one term (S, t) per site t, with the sites of S (a bit mask) revealed and the others masked; its value
is sum_t log q(x_t | x_S). Terms with the same S share their passes, whichever score asks, and so do variants with the same x_S.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from unmask.checks import one_of, whole
from unmask.errors import InputError
from unmask.joints.registry import DEFAULT_OF_MUTANTS, named
from unmask.sampling.registry import KERNELS, refuse_no_law

Chain = list[tuple[int, int]]
ChainsOfSites = Callable[[int, Sequence[Sequence[int]]], list[Chain]]
"""From the number of sites, and sampled orders of them, to the chains of a score of variants."""


def _one_per_token(sites: int, settings: Any) -> int:
    return sites


def _along(order: Sequence[int]) -> Chain:
    """The chain rule in one order: each site given those before it."""
    return [(sum(1 << site for site in order[:place]), site) for place, site in enumerate(order)]


@dataclass(frozen=True)
class Family:
    """Scores that one function computes, so that they share passes.

    function   "module:function"; see `unmask.scoring.batch.ScoreFunction`
    passes     about how many passes a text with this many sites takes with these settings; what depends on its length
               alone, such as a normaliser, is not counted
    shared     whether the passes of one score give all of them; otherwise each score is counted
    """

    function: str
    passes: Callable[[int, Any], int] = _one_per_token
    shared: bool = False


@dataclass(frozen=True)
class Score:
    """One score.

    definition    a sentence with its formula, and what q is normalised over
    probability   whether exp(score) sums to 1 over the texts of a length
    why           in a few words, why that is so
    family        how it is computed
    unknown       whether texts with tokens that the model does not know have one
    by_token      whether it is a sum over tokens, so that each token and word has its share
    by_word       whether it needs the tokenizer's words
    windows       whether texts longer than the model can be scored in windows
    better        1 if a higher value means a better text, -1 if a lower one does
    options       arguments of `score` that it reads
    extra         further columns of numbers that come with it, named NAME_suffix
    flags         further columns of yes or no, after those
    inexact       printed below values whose flag `exact` is no
    page_refusal  why the page does not offer it; empty if it does
    in_minicons   its name there, where it has one
    chains        of variants; None for scores that have none
    """

    name: str
    definition: str
    probability: bool
    why: str
    family: Family
    unknown: bool = False
    by_token: bool = False
    by_word: bool = False
    windows: bool = False
    better: int = 1
    options: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    inexact: str = ""
    page_refusal: str = ""
    in_minicons: str = ""
    chains: ChainsOfSites | None = None

    @property
    def kind(self) -> str:
        """Whether it is a probability, as it is printed."""
        return "a probability" if self.probability else "not a probability"


def _over_orders(sites: int, settings: Any) -> int:
    return int(2**sites - 1 if sites <= settings.exact_tokens else sites * settings.orders)


_RANGES = Family("unmask.scoring.masked_ranges:score_ranges")
_ADAPTIVE = Family("unmask.scoring.orders:score_adaptive")
_ORDERS = Family("unmask.scoring.orders:score_orders", _over_orders, shared=True)
_PAIRS = Family("unmask.scoring.pair_joints:score_pairs", lambda sites, settings: 2 * settings.candidates * sites)
_NORMALISED = Family("unmask.scoring.annealed_importance:score_log_prob")
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
DECODER = "decoder:"
"""Before the name of a decoder whose law is the score; @N after it gives the number of passes."""
USUAL_PASSES, MOST_PASSES = 10, 10**6


class Registry(dict[str, Score]):
    """Scores by name; the laws of decoders, which have any number of passes in their names, are made when they are asked for."""

    def __missing__(self, name: str) -> Score:
        return law_of(name)


SCORES: dict[str, Score] = Registry(
    (score.name, score)
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
            in_minicons="original",
            chains=lambda k, _: [[((1 << k) - 1 - (1 << t), t) for t in range(k)]],
        ),
        Score(
            "pll_word",
            f"as pll, with the later pieces of the same word masked along with x_t (Kauf & Ivanova 2023), {_WHOLE}",
            False,
            "within a word it is a chain rule, between words the conditionals overlap as those of pll",
            _RANGES,
            unknown=True,
            by_token=True,
            by_word=True,
            windows=True,
            in_minicons="within_word_l2r",
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
                chains=(lambda k, _: [_along(range(k))]) if name == "left_to_right" else None,
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
            chains=lambda _, orders: [_along(order) for order in orders],
        ),
        Score(
            "order_bounds",
            f"chain rule in the best order; order_bounds_worst in the worst; any_order lies between; {_REGULAR}",
            False,
            "which order is best depends on the hidden tokens",
            _ORDERS,
            options=("exact_tokens", "orders", "seed"),
            extra=("worst",),
            flags=("exact",),
        ),
        Score(
            "pair",
            "sum of log mu_i(x_i, x_{i+1}) over adjacent pairs minus log of their shared marginals, mu_i a derived joint, "
            + _REGULAR,
            False,
            "the pairs' contexts overlap, as those of pll do",
            _PAIRS,
            options=("joint", "candidates"),
        ),
        Score(
            "log_prob",
            "-E(x) - log Z over the texts of this length in regular tokens, log Z by enumeration or between annealed importance "
            "sampling's bounds; E as in energy_raw or energy_norm",
            True,
            "normalised by Z, within the bounds log_prob_low and log_prob_high",
            _NORMALISED,
            options=("energy", "chains", "anneals", "seed"),
            extra=("low", "high"),
            flags=("exact",),
            # against enumeration with the default settings; docs/scores.md has the counts
            inexact="bounds less than 2 nats apart miss about 1 time in 50, wider ones 1 time in 3",
            page_refusal="takes minutes for one text",
        ),
    )
)

_OF_VARIANTS_ALONE = Family("")
"""Computed in the room of variants, which is right of this one."""
PAIRS = "pairs:"
"""Before the name of a construction."""
OF_VARIANTS = {
    score.name: score
    for score in (
        Score(
            "singles",
            "sum over the changes of log q(x_t | w) - log q(w_t | w): each change alone in the parent",
            False,
            "a difference",
            _OF_VARIANTS_ALONE,
        ),
        Score(
            "product",
            "sum over the sites of log q(x_t | no site revealed): all sites masked",
            True,
            "independent sites",
            _OF_VARIANTS_ALONE,
            chains=lambda k, _: [[(0, t) for t in range(k)]],
        ),
        SCORES["pll"],
        SCORES["left_to_right"],
        SCORES["any_order"],
        Score(
            "epistasis",
            "sum over pairs of changed sites of log mu(x_s, x_t) - log mu(w_s, w_t) - the pair's singles, mu the joint that a "
            "construction derives for s and t in the parent",
            False,
            "a difference",
            _OF_VARIANTS_ALONE,
        ),
    )
}
NAMES_OF_VARIANTS = (*OF_VARIANTS, f"{PAIRS}CONSTRUCTION")
"""For help texts and errors; pairs:CONSTRUCTION is singles plus epistasis by that construction."""


def chosen_of_variants(names: str | Iterable[str], joint: str = DEFAULT_OF_MUTANTS) -> tuple[str, ...]:
    """The scores of variants asked for, each once: a list of names, or one text with commas; "all" is each of them.

    joint   the construction of `pairs` without a name
    """
    given = _comma_separated(names) if isinstance(names, str) else list(names)
    if given == ["all"]:
        given = [*OF_VARIANTS, "pairs"]
    if not given:
        raise InputError(f"no score was asked for: name one or more of {', '.join(NAMES_OF_VARIANTS)}")
    return tuple(dict.fromkeys(_known_of_variants(name, joint) for name in given))


def _known_of_variants(name: object, joint: str) -> str:
    if isinstance(name, str) and (name == "pairs" or name.startswith(PAIRS)):
        return PAIRS + named(joint if name == "pairs" else name.removeprefix(PAIRS), "construction of pairs").name
    return one_of("score", name, NAMES_OF_VARIANTS)


def _comma_separated(text: str) -> list[str]:
    """The names in a text with commas; a number belongs to the name before it, such as pairs:family:0.5,0.25."""
    parts: list[str] = []
    for part in text.split(","):
        if parts and not part.strip()[:1].isalpha():
            parts[-1] += f",{part.strip()}"
        else:
            parts.append(part.strip())
    return parts


DEFAULT = next(iter(SCORES))
DEFAULT_OF_HARNESS = "any_order"
"""A probability: answers of the LM Evaluation Harness are compared by it."""


MOST_DIGITS = 20
"""Of a number of passes: Python refuses to read numbers of thousands of digits."""
WITH_LAW = {f"{DECODER}{name}": ("seed",) if entry.random_order else () for name, entry in KERNELS.items() if entry.law}
READ = {name: score.options for name, score in SCORES.items()} | WITH_LAW
"""The options that each score reads, by the name without a number of passes."""


def decoder_of(name: str) -> tuple[str, int | None]:
    """The decoder and the number of passes of a score such as decoder:interleaved@4; None: as many as its default needs."""
    decoder, at, passes = name.removeprefix(DECODER).partition("@")
    refuse_no_law(f"score {name}", decoder)
    one_of("score", f"{DECODER}{decoder}", WITH_LAW)
    short = len(passes) <= MOST_DIGITS
    number = int(passes) if passes.isascii() and passes.isdigit() and short else passes[:MOST_DIGITS]
    return decoder, whole(f"the number of passes of score {DECODER}{decoder}", number, 1, MOST_PASSES) if at else None


def _passes_of_law(steps: int | None, sites: int, settings: Any) -> int:
    return min(sites, steps or USUAL_PASSES)


@cache
def law_of(name: str) -> Score:
    """The score that is the law of a decoder."""
    decoder, steps = decoder_of(name)
    entry = KERNELS[decoder]
    bound = f"the default {entry.bound}" if entry.bound else f"{USUAL_PASSES} passes"
    return Score(
        name,
        f"law of the decoder {decoder}: a pass reveals {entry.law}, each token with log q(x_i | what was revealed before), "
        f"{bound if steps is None else f'{steps} passes' if steps > 1 else '1 pass'}, {_REGULAR}",
        True,
        "positions are chosen from the revealed tokens only, so each pass is a conditional probability of the tokens it reveals",
        Family("unmask.scoring.orders:score_laws", partial(_passes_of_law, steps)),
        by_token=True,
        options=WITH_LAW[f"{DECODER}{decoder}"],
        extra=_SPECIAL,
    )


def families(names: Iterable[str]) -> dict[Family, list[str]]:
    """The families of these scores, and the scores of each."""
    found: dict[Family, list[str]] = {}
    for name in names:
        found.setdefault(SCORES[name].family, []).append(name)
    return found


def passes_of(sites: int, names: Iterable[str], settings: Any) -> int:
    """About how many passes these scores take for a text, in whatever order they are named."""
    counted = families(names).items()
    return sum(family.passes(sites, settings) * (1 if family.shared else len(several)) for family, several in counted)


def columns_of(names: Iterable[str]) -> dict[str, bool]:
    """The columns of these scores, and whether each is a yes or no."""
    columns: dict[str, bool] = {}
    for score in (SCORES[name] for name in names):
        columns |= {score.name: False} | {f"{score.name}_{suffix}": False for suffix in score.extra}
        columns |= {f"{score.name}_{suffix}": True for suffix in score.flags}
    return columns


def share_column(name: str) -> str:
    """The column of a token's or a word's share of the score."""
    return name if SCORES[name].better < 0 else f"{name}_surprisal"


def about(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """The definition of each score, and whether it is a probability."""
    return {
        score.name: {
            "definition": score.definition,
            "probability": score.probability,
            "why": score.why,
            "better": "higher" if score.better > 0 else "lower",
        }
        for score in (SCORES[name] for name in names)
    }


def chosen(score: str | list[str] | tuple[str, ...]) -> tuple[str, ...]:
    """The names asked for, with commas between them or as a list, each once; an unknown name raises, with the nearest."""
    given = [part.strip() for part in score.split(",")] if isinstance(score, str) else list(score)
    if not given or given == [""]:
        raise InputError(f"no score was asked for: name one or more of {', '.join(SCORES)}")
    return tuple(dict.fromkeys(_known(name) for name in given))


def _known(name: object) -> str:
    """The name of a score; of a decoder's law, any number of passes."""
    if isinstance(name, str) and name.startswith(DECODER):
        return law_of(name).name
    return one_of("score", name, [*SCORES, *WITH_LAW])
