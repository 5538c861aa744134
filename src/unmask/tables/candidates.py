"""Candidate sets: the tokens of each blank over which a joint is derived.

A joint of k blanks over n tokens each costs about k n^(k-1) passes of the model, so a large
vocabulary is cut down to the n tokens of each blank with the highest score. Special tokens
([CLS], [PAD], [MASK], [UNK], ...) are outside the support of a filled text and are never
candidates.

The choice has two steps. `plan_candidates` reads the arguments and decides how many candidates
there are, without a pass, so that a bad request raises before the model runs. `find_candidates`
scores the tokens and takes the best.

`candidate_scores` has the score, `default_effort` the n of an answer whose user gives none, and
`joint_limits` what is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from jaxtyping import Int
from torch import Tensor

from unmask.common.cloze import Cloze
from unmask.models.conditional_model import ConditionalModel
from unmask.runs.progress import Progress
from unmask.tables.candidate_scores import NEIGHBOURS, best_tokens, score_passes, token_scores
from unmask.tables.conditionals import regular_tokens
from unmask.tables.default_effort import Effort, default_effort
from unmask.tables.joint_limits import check_feasible, largest_feasible
from unmask.tables.named_tokens import alphabet_tokens, own_sets

Candidates = int | Literal["all"] | Sequence[Sequence[int]] | None
"""How many tokens to consider at each blank, all, or which; None: a number that suits the model."""


@dataclass(frozen=True)
class CandidatePlan:
    """Which tokens each blank of a cloze may take, before any pass of the model.

    allowed     token ids allowed in a blank
    sets        the candidates of each blank; None before the likeliest of those allowed are found
    size        the number of candidates per blank, of the blank that has most
    neighbours  how many likely tokens of every other blank the score looks at
    """

    cloze: Cloze
    allowed: Int[Tensor, " n"]
    sets: tuple[Int[Tensor, " _"], ...] | None
    size: int
    neighbours: int = NEIGHBOURS

    @property
    def passes(self) -> int:
        """Passes of the model that finding the candidates takes."""
        if self.sets is not None:
            return 0
        neighbours = min(self.neighbours, len(self.allowed))
        return score_passes(len(self.cloze.block), neighbours)

    @property
    def sizes(self) -> list[int]:
        """How many candidates each blank has."""
        if self.sets is not None:
            return [len(tokens) for tokens in self.sets]
        return [self.size] * len(self.cloze.block)


def choose_candidates(
    model: ConditionalModel,
    cloze: Cloze,
    candidates: Candidates = None,
    force: bool = False,
    alphabet: Sequence[int] | None = None,
) -> tuple[Tensor, ...]:
    """The candidates of each blank, as token ids.

    candidates   how many of each blank, the most likely and the gold ones; all that are allowed;
                 or a set of token ids for each blank [default: all of a single blank, of several
                 what the model can pass in a few seconds]
    force        whether to allow a joint beyond the limits
    alphabet     the token ids allowed in a blank [default: all regular ones]
    """
    plan = plan_candidates(model, cloze, candidates, force=force, alphabet=alphabet)
    (sets,) = find_candidates(model, [plan])
    return sets


def plan_candidates(
    model: ConditionalModel,
    cloze: Cloze,
    candidates: Candidates = None,
    force: bool = False,
    alphabet: Sequence[int] | None = None,
) -> CandidatePlan:
    """The plan of `choose_candidates`, before any pass; raises for sets of tokens that a blank
    cannot take, and for too many passes.
    """
    sites = len(cloze.block)
    allowed = regular_tokens(model)
    if alphabet is not None:
        allowed = alphabet_tokens(alphabet, allowed, cloze)
    vocabulary = len(allowed)
    if isinstance(candidates, Sequence) and candidates != "all":  # token ids for each blank
        sets = own_sets(candidates, allowed, sites)
        sizes = [len(tokens) for tokens in sets]
        check_feasible(sizes, vocabulary, force)
        return CandidatePlan(cloze=cloze, allowed=allowed, sets=sets, size=max(sizes))

    if candidates == "all":
        effort = Effort(size=vocabulary)
    elif isinstance(candidates, int):
        effort = Effort(size=min(candidates, vocabulary))
    elif sites == 1:  # which takes 2 passes, whatever its candidates
        effort = Effort(size=vocabulary)
    elif alphabet is not None:  # taken whole, if the limits allow it, however slow the model is
        effort = Effort(size=largest_feasible(sites, vocabulary))
    else:
        effort = default_effort(model, cloze, vocabulary)
    check_feasible([effort.size] * sites, vocabulary, force, candidates == "all")
    takes_all = effort.size == vocabulary
    return CandidatePlan(
        cloze=cloze,
        allowed=allowed,
        sets=(allowed,) * sites if takes_all else None,
        size=effort.size,
        neighbours=effort.neighbours,
    )


def find_candidates(
    model: ConditionalModel, plans: Sequence[CandidatePlan], progress: Progress | None = None
) -> list[tuple[Tensor, ...]]:
    """The candidates of several clozes; the passes of texts of one length run together."""
    found: dict[int, tuple[Tensor, ...]] = {}  # by number of the plan
    groups: dict[object, list[int]] = {}  # numbers of plans that pass together
    for i, plan in enumerate(plans):
        if plan.sets is None:
            alike = (len(plan.cloze.ids), len(plan.cloze.block), plan.neighbours)
            groups.setdefault(alike, []).append(i)
        else:
            found[i] = plan.sets

    total = sum(plan.passes for plan in plans)
    done = 0
    for group in groups.values():
        scores = token_scores(
            model,
            clozes=[plans[i].cloze for i in group],
            allowed=[plans[i].allowed for i in group],
            neighbours=plans[group[0]].neighbours,  # those of all in the group
        )
        for i, score in zip(group, scores, strict=True):
            plan = plans[i]
            found[i] = best_tokens(plan.cloze, score, plan.allowed, plan.size)
            done += plan.passes
        if progress:
            progress(done, total, "passes for candidates")
    return [found[i] for i in range(len(plans))]
