"""Candidate sets: the tokens of each blank over which a joint is derived.

A joint of k blanks over n tokens each costs about k n^(k-1) passes of the model, so a large
vocabulary is cut down to the n tokens of each blank t with the highest

    score_t(x) = m_t(x) / 2 + 1/(2(k-1)) sum_{s != t} sum_y w_s(y) q_t(x | x_s = y; the other
        blanks masked),

where m_t is the model's distribution with every blank masked, and w_s is m_s renormalised over its
most likely tokens y. The first term alone misses tokens that are likely only beside the right
neighbour (the second half of a name); the second costs a few passes. Special tokens ([CLS],
[PAD], [MASK], [UNK], ...) are outside the support of a filled text and are never candidates.

The default n is what the model can pass in SECONDS. The time of a pass is computed from the
model's size, at SPEED multiplications per second. A measured speed would vary with the machine's
load, and so would the answer. For a pair and a model as small as the bundled one, n is 512.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from unmask.common import checks
from unmask.common.batches import grouped
from unmask.common.cloze import Cloze
from unmask.common.errors import InputError
from unmask.models.conditional_model import ConditionalModel
from unmask.runs.progress import Progress
from unmask.tables.conditional_table import rows_at_once
from unmask.tables.conditionals import regular_tokens, token_sets
from unmask.tables.unary import masked_logits, pass_count

SMALL_VOCABULARY = 64
"""A vocabulary of at most this many regular tokens (amino acids, characters) is taken whole, if
the limits allow it.
"""
LARGEST_DEFAULT = 512  # candidates of a blank
MOST_PASSES = 1500  # limit for the tables of a default answer
LEAST_PASSES = 24  # a limit as low as this is not halved again, however slow the model is
SECONDS = 3.5
"""Limit of a default answer, as `seconds_per_pass` estimates it. Most answers take about two."""
MAX_PASSES = 200_000
MAX_CELLS = 1_000_000_000
"""A joint beyond MAX_PASSES or MAX_CELLS is refused unless asked for with force. It takes hours
on a CPU, or gigabytes for each table.
"""
MOST_CANDIDATES = 10**7  # that an argument may name
SPEED = {"cpu": 50e9, "cuda": 1e13}
"""Multiplications per second of two ordinary cores, and of an ordinary GPU."""
NEIGHBOURS = 64
"""Likely tokens of every other blank that the second term of the score looks at; fewer with a slow
model.
"""


@dataclass(frozen=True)
class CandidatePlan:
    """Which tokens each blank of a cloze may take, before any pass of the model.

    allowed     token ids allowed in a blank
    sets        the candidates of each blank; None before the likeliest of those allowed are found
    size        the number of candidates per blank, of the blank that has most
    neighbours  how many likely tokens of every other blank the score looks at
    """

    cloze: Cloze
    allowed: Tensor
    sets: tuple[Tensor, ...] | None
    size: int
    neighbours: int = NEIGHBOURS

    @property
    def passes(self) -> int:
        """Passes of the model that finding the candidates takes."""
        if self.sets is not None:
            return 0
        return 1 + len(self.cloze.block) * min(self.neighbours, len(self.allowed))

    @property
    def sizes(self) -> list[int]:
        """How many candidates each blank has."""
        if self.sets is not None:
            return [len(tokens) for tokens in self.sets]
        return [self.size] * len(self.cloze.block)


def choose_candidates(
    model: ConditionalModel,
    cloze: Cloze,
    candidates: int | Sequence[Sequence[int]] | None = None,
    exact: bool = False,
    force: bool = False,
    alphabet: Sequence[int] | None = None,
) -> tuple[Tensor, ...]:
    """Token ids for each blank: every regular token if `exact`, the given sets, or the
    `candidates` most likely of each, the gold ones always among them. `alphabet`: the token ids
    allowed in a blank."""
    plan = plan_candidates(model, cloze, candidates, exact=exact, force=force, alphabet=alphabet)
    (sets,) = find_candidates(model, [plan])
    return sets


def plan_candidates(
    model: ConditionalModel,
    cloze: Cloze,
    candidates: int | Sequence[Sequence[int]] | None = None,
    exact: bool = False,
    force: bool = False,
    alphabet: Sequence[int] | None = None,
) -> CandidatePlan:
    """The plan of `choose_candidates`, before any pass; raises for arguments that contradict
    each other and too many passes.
    """
    allowed = regular_tokens(model)
    if alphabet is not None:
        allowed = _alphabet(alphabet, allowed, cloze)
    if exact and candidates is not None:
        raise InputError(
            "exact and candidates were both given: exact takes every regular token, so leave"
            " candidates out"
        )
    k = len(cloze.block)
    # A sequence that is not a text has one set per blank
    if not isinstance(candidates, int | str | None) and hasattr(candidates, "__len__"):
        sets = _own_sets(candidates, allowed, k)
        sizes = [len(tokens) for tokens in sets]
        check_feasible(sizes, len(allowed), force)
        return CandidatePlan(cloze=cloze, allowed=allowed, sets=sets, size=max(sizes))
    if candidates is not None:  # a number, or something else, which `whole` refuses
        candidates = checks.whole("candidates", candidates, 1, MOST_CANDIDATES)
    neighbours = NEIGHBOURS
    if exact or k == 1:  # a single blank takes 2 passes, whatever its candidates
        size = len(allowed)
    elif candidates is not None:
        size = min(candidates, len(allowed))
    elif len(allowed) <= SMALL_VOCABULARY and _fits([len(allowed)] * k):
        size = len(allowed)
    elif alphabet is not None:  # taken whole, if the limits allow it, however slow the model is
        size = _largest(k, len(allowed))
    else:
        seconds = seconds_per_pass(model, len(cloze.ids))
        size, neighbours = _affordable(k, len(allowed), seconds)
    check_feasible([size] * k, len(allowed), force, exact)
    return CandidatePlan(
        cloze=cloze,
        allowed=allowed,
        sets=(allowed,) * k if size == len(allowed) else None,
        size=size,
        neighbours=neighbours,
    )


def find_candidates(
    model: ConditionalModel, plans: Sequence[CandidatePlan], progress: Progress | None = None
) -> list[tuple[Tensor, ...]]:
    """The candidates of several clozes; the passes of texts of one length run together."""
    found: dict[int, tuple[Tensor, ...]] = {}
    unknown: list[int] = []
    for i, plan in enumerate(plans):
        if plan.sets is None:
            unknown.append(i)
        else:
            found[i] = plan.sets

    def alike(i: int) -> object:
        plan = plans[i]
        return len(plan.cloze.ids), len(plan.cloze.block), plan.neighbours

    total = sum(plan.passes for plan in plans)
    done = 0
    for places in grouped(unknown, alike):
        group = [unknown[place] for place in places]  # numbers of plans
        scores = _scores(
            model,
            [plans[i].cloze for i in group],
            [plans[i].allowed for i in group],
            plans[group[0]].neighbours,
        )
        for i, score in zip(group, scores, strict=True):
            plan = plans[i]
            found[i] = _best(plan.cloze, score, plan.allowed, plan.size)
            done += plan.passes
        if progress:
            progress(done, total, "passes for candidates")
    return [found[i] for i in range(len(plans))]


def default_size(sites: int, passes: int = MOST_PASSES) -> int:
    """The largest number of candidates per blank, up to LARGEST_DEFAULT, that takes at most
    this many passes; at least 2.
    """
    return max(2, _largest(sites, LARGEST_DEFAULT, passes))


def check_feasible(
    sizes: Sequence[int], vocabulary: int, force: bool = False, exact: bool = False
) -> None:
    """Refuse, before any pass, a joint that needs more than MAX_PASSES passes or MAX_CELLS
    cells.
    """
    if force or _fits(sizes):
        return
    feasible = _largest(len(sizes), vocabulary)
    if feasible == 1:  # what `_largest` also returns if not even 1 fits
        use = "use fewer blanks"
    elif exact:
        use = f"leave out exact and use candidates={feasible} or fewer"
    else:
        use = f"use candidates={feasible} or fewer"
    shown = " x ".join(f"{size:,}" for size in sizes)
    raise InputError(
        f"{len(sizes)} blanks with {shown} candidates need {pass_count(sizes):,} passes of the"
        f" model and {prod(sizes):,} cells per table (limits {MAX_PASSES:,} and {MAX_CELLS:,}):"
        f" {use}, or force=True"
    )


def likely_tokens(
    model: ConditionalModel, cloze: Cloze, size: int, regular: Tensor, neighbours: int = NEIGHBOURS
) -> tuple[Tensor, ...]:
    """The `size` tokens of each blank with the highest score, best first."""
    (score,) = _scores(model, [cloze], [regular], neighbours)
    return _best(cloze, score, regular, size)


def _scores(
    model: ConditionalModel, clozes: Sequence[Cloze], allowed: Sequence[Tensor], neighbours: int
) -> list[Tensor]:
    """For each cloze, all of one length and one number of blanks k, the score (k, n) of its n
    allowed tokens.
    """
    k = len(clozes[0].block)
    masked: list[Tensor] = []  # m_t of the allowed tokens (k, n)
    for logits, tokens in zip(masked_logits(model, clozes), allowed, strict=True):
        masked.append(logits.float().softmax(-1)[:, tokens])
    likely = [m.topk(min(neighbours, m.shape[1])) for m in masked]  # the tokens y, at each blank
    scores = [m / 2 for m in masked]
    for s in range(k):
        others = [t for t in range(k) if t != s]
        rows: list[Tensor] = []
        positions: list[Tensor] = []
        for cloze, likeliest, tokens in zip(clozes, likely, allowed, strict=True):
            y = tokens[likeliest.indices[s]]
            texts = torch.tensor([cloze.ids], device=model.device).repeat(len(y), 1)
            texts[:, cloze.block[s]] = y
            rows.append(texts)
            places = torch.tensor([[cloze.block[t] for t in others]], device=model.device)
            positions.append(places.expand(len(y), -1))
        for i, logits in enumerate(_in_calls(model, rows, positions)):
            weight = likely[i].values[s]
            weight = weight / weight.sum()  # w_s
            q = logits.float().softmax(-1)[..., allowed[i]]  # (y, t, x)
            beside_s = torch.einsum("y,ytx->tx", weight, q)
            scores[i][others] += beside_s / (2 * (k - 1))
    return scores


def _in_calls(
    model: ConditionalModel, rows: Sequence[Tensor], positions: Sequence[Tensor]
) -> Iterator[Tensor]:
    """The logits of each cloze's rows; as many clozes per call as fill a batch of the model."""
    most = rows_at_once(model, rows[0].shape[1])
    batch: list[int] = []
    size = 0
    for i, of_cloze in enumerate(rows):
        if batch and size + len(of_cloze) > most:
            yield from _one_call(model, [rows[j] for j in batch], [positions[j] for j in batch])
            batch = []
            size = 0
        batch.append(i)
        size += len(of_cloze)
    yield from _one_call(model, [rows[j] for j in batch], [positions[j] for j in batch])


def _one_call(
    model: ConditionalModel, rows: list[Tensor], positions: list[Tensor]
) -> Sequence[Tensor]:
    """The logits of each cloze's rows, from one call of the model."""
    logits = model.logits(torch.cat(rows), torch.cat(positions))
    return logits.split([len(of_cloze) for of_cloze in rows])


def _best(cloze: Cloze, score: Tensor, allowed: Tensor, size: int) -> tuple[Tensor, ...]:
    """The `size` allowed tokens of each blank with the highest score (k, n), best first. Gold
    tokens come before all others.
    """
    if cloze.gold is not None:
        gold = torch.tensor(cloze.gold, device=allowed.device)
        score = score.masked_fill(allowed == gold[:, None], torch.inf)
    return tuple(allowed[of_blank.topk(size).indices] for of_blank in score)


def _alphabet(alphabet: Sequence[int], regular: Tensor, cloze: Cloze) -> Tensor:
    """An alphabet's tokens, each once; raises if one is no regular token, or a gold one is not
    among them.
    """
    known = set(regular.tolist())
    ids = list(dict.fromkeys(int(i) for i in alphabet))
    if not ids:
        raise InputError("the alphabet is empty: name tokens that a text can have")
    for i in ids:
        if i not in known:
            raise InputError(
                f"the alphabet has {i}, which is not a regular token of the model: name tokens"
                " that a text can have"
            )
    for i in cloze.gold or ():
        if i not in ids:
            raise InputError(
                f"the target with token id {i} is not in the alphabet: add it, or choose"
                " another target"
            )
    return torch.tensor(ids, device=regular.device)


def _own_sets(
    candidates: Sequence[Sequence[int]], regular: Tensor, sites: int
) -> tuple[Tensor, ...]:
    """The sets of candidates that a user gives; raises if one has a token that is not regular."""
    known = set(regular.tolist())

    def check(blank: int, token: int) -> None:
        if token not in known:
            raise InputError(
                f"candidate {token} of blank {blank} is not a regular token of the model: take"
                " it out"
            )

    sets = token_sets("candidate", candidates, sites, check)
    return tuple(tokens.to(regular.device) for tokens in sets)


def _affordable(sites: int, vocabulary: int, seconds: float) -> tuple[int, int]:
    """Candidates per blank, and neighbours that their score looks at: MOST_PASSES halved until
    the answer takes SECONDS, at `seconds` per pass.
    """
    passes = MOST_PASSES  # limit for the tables; with it the neighbours fall in proportion
    while True:
        size = min(default_size(sites, passes), vocabulary)
        neighbours = max(2, NEIGHBOURS * passes // MOST_PASSES)
        neighbours = min(neighbours, vocabulary)
        of_scores = 1 + sites * neighbours
        of_tables = pass_count([size] * sites)
        if passes <= LEAST_PASSES or seconds * (of_scores + of_tables) <= SECONDS:
            return size, neighbours
        passes //= 2


def _fits(sizes: Sequence[int], passes: int = MAX_PASSES) -> bool:
    """Whether candidate sets of these sizes need at most this many passes, and MAX_CELLS cells."""
    return prod(sizes) <= MAX_CELLS and pass_count(sizes) <= passes


def _largest(sites: int, most: int, passes: int = MAX_PASSES) -> int:
    """The largest n <= most that fits with n candidates at each of `sites` blanks; at least 1."""
    sizes = range(1, most + 1)

    def is_too_large(size: int) -> bool:
        return not _fits([size] * sites, passes)

    fitting = bisect_left(sizes, True, key=is_too_large)  # how many come before the first such
    return max(1, fitting)


def seconds_per_pass(model: ConditionalModel, tokens: int) -> float:
    """About how many seconds one pass of a text of `tokens` tokens takes, in batches; 0 for a model
    that does not say how much it computes.
    """
    speed = SPEED.get(model.device.type, SPEED["cuda"])
    return (model.multiplications(tokens) or 0) / speed
