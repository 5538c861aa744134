"""The scores of variants by name: what each is, and which conditionals of the model it adds up.

A variant x of a parent w differs from it at some of the k sites that vary; every other token is the parent's. Write
q_t(x_t | x_S) for the model's probability of x_t with the sites of S revealed and the other sites masked, normalised over the
alphabet, and q_t(x_t | w) for that with every other token as in the parent.

A score over contexts is a list of chains. A chain is one term (S, t) per site t, its value sum_t log q_t(x_t | x_S), and S a bit
mask over the sites. Terms with the same S share their passes, whichever score asks, and so do variants with the same x_S.
Nothing here imports torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from unmask.checks import one_of
from unmask.errors import InputError
from unmask.joints.registry import DEFAULT_OF_MUTANTS, named

Term = tuple[int, int]
Chains = list[list[Term]]
PAIRS = "pairs:"
"""Before the name of a construction."""


@dataclass(frozen=True)
class VariantScore:
    """One score.

    definition    a sentence with its formula
    passes        about how many passes it takes, k sites and an alphabet of V letters
    probability   whether exp(score) sums to 1 over all variants of the sites
    chains        its chains for k sites and the sampled orders; None if it needs the parent's neighbours only
    extra         further columns, named NAME_suffix
    joint         the construction of its pairs, if it has any
    independent   the score that takes the same changes as independent, if it is one that sees their dependence
    """

    name: str
    definition: str
    passes: str
    probability: bool = False
    chains: Callable[[int, Sequence[Sequence[int]]], Chains] | None = None
    extra: tuple[str, ...] = ()
    joint: str = ""
    independent: str = ""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of its numbers."""
        return (self.name, *(f"{self.name}_{suffix}" for suffix in self.extra))


def along(order: Sequence[int]) -> list[Term]:
    """The chain rule in one order: each site given those before it."""
    revealed, terms = 0, []
    for site in order:
        terms.append((revealed, site))
        revealed |= 1 << site
    return terms


SCORES: dict[str, VariantScore] = {
    score.name: score
    for score in (
        VariantScore(
            "singles",
            "sum over the changes of log q_t(x_t | w) - log q_t(w_t | w): each change alone in the parent",
            "k",
        ),
        VariantScore(
            "product",
            "sum over the sites of log q_t(x_t | no site revealed): all sites masked",
            "1",
            True,
            lambda k, _: [[(0, t) for t in range(k)]],
        ),
        VariantScore(
            "pll",
            "sum over the sites of log q_t(x_t | all other sites of the variant): each site masked alone",
            "k per variant; variants that agree at the other k - 1 sites share one",
            False,
            lambda k, _: [[((1 << k) - 1 - (1 << t), t) for t in range(k)]],
        ),
        VariantScore(
            "left_to_right",
            "chain rule from the first site to the last: sum over the sites of log q_t(x_t | the sites before t)",
            "1 per distinct beginning of a variant",
            True,
            lambda k, _: [along(range(k))],
        ),
        VariantScore(
            "any_order",
            "log of the mean over sampled orders of the chain rule's probability, the same orders for all variants; "
            "any_order_mean_log: mean of the logs",
            "1 per order and distinct beginning of a variant in that order",
            True,
            lambda _, orders: [along(order) for order in orders],
            ("mean_log",),
            independent="product",
        ),
        VariantScore(
            "epistasis",
            "sum over pairs of changed sites of log mu(x_s, x_t) - log mu(w_s, w_t) - the pair's singles, mu the joint that a "
            "construction derives for s and t in the parent",
            "2 V + 1 per pair of sites",
            joint=DEFAULT_OF_MUTANTS,
        ),
    )
}
NAMES = (*SCORES, f"{PAIRS}CONSTRUCTION")
"""All that `chosen` understands, for help texts and errors."""


def pairs(construction: str) -> VariantScore:
    """singles + epistasis, both of the parent's pairs, by one construction."""
    joint = named(construction, "construction of pairs").name
    what = f"singles, plus the epistasis of every pair of changed sites by the construction {joint}"
    return VariantScore(f"{PAIRS}{joint}", what, SCORES["epistasis"].passes, joint=joint)


def chosen(names: str | Iterable[str], joint: str = DEFAULT_OF_MUTANTS) -> list[VariantScore]:
    """The scores asked for, each once: a list of names, or one text with commas between them; "all" is each of SCORES and pairs.

    joint   the construction of `epistasis`, and of `pairs` without a name
    """
    given = _parts(names) if isinstance(names, str) else list(names)
    if given == ["all"]:
        given = [*SCORES, "pairs"]
    found = {score.name: score for score in (_known(name, joint) for name in given)}
    if not found:
        raise InputError(f"no score was asked for: name one or more of {', '.join(NAMES)}")
    return list(found.values())


def columns_of(scores: Iterable[VariantScore]) -> list[str]:
    """The columns of several scores."""
    return [column for score in scores for column in score.columns]


def _known(name: object, joint: str) -> VariantScore:
    if isinstance(name, str) and (name == "pairs" or name.startswith(PAIRS)):
        return pairs(joint if name == "pairs" else name.removeprefix(PAIRS))
    score = SCORES[one_of("score", name, NAMES)]
    return replace(score, joint=named(joint, "joint").name) if score.joint else score


def _parts(text: str) -> list[str]:
    """The names in a text with commas; a number belongs to the name before it, such as pairs:family:0.5,0.25."""
    parts: list[str] = []
    for part in text.split(","):
        if parts and not part.strip()[:1].isalpha():
            parts[-1] += f",{part.strip()}"
        else:
            parts.append(part.strip())
    return parts
