"""Candidate sets: the tokens of each blank over which a joint is derived.

A joint of k blanks over n tokens each costs about k n^(k-1) passes of the model, so a large
vocabulary is cut down to the n tokens of each blank t with the highest

    score_t(x) = m_t(x) / 2 + 1/(2(k-1)) sum_{s != t} sum_y w_s(y) q_t(x | x_s = y; the other
        blanks masked),

where m_t is the model's distribution with every blank masked and w_s is m_s over its most
likely tokens y. The first term alone misses tokens that are likely only beside the right
neighbour (the second half of a name); the second costs a few passes. Special tokens ([CLS],
[PAD], [MASK], [UNK], ...) are outside the support of a filled text and are never candidates.

The default n follows the model's size, at SPEED multiplications per second: 512 for a pair with
a model as small as the bundled one. A measured speed would vary with the machine's load, and so
would the answer.
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
LARGEST_DEFAULT = 512
MOST_PASSES = 1500
LEAST_PASSES = 24
# Limits of a default answer: passes, and seconds as `seconds_per_pass` estimates them; mostly
# about two
SECONDS = 3.5
MAX_PASSES = 200_000
MAX_CELLS = 1_000_000_000
"""Beyond these a joint is refused unless asked for with force: hours on a CPU, and gigabytes
for each table.
"""
MOST_CANDIDATES = 10**7
SPEED = {
    "cpu": 50e9,
    "cuda": 1e13,
}  # Multiplications per second of two ordinary cores, and of an ordinary GPU
# How many likely tokens of every other blank the second term of the score looks at; a slow
# model takes fewer
NEIGHBOURS = 64


@dataclass(frozen=True)
class CandidatePlan:
    """Which tokens each blank of a cloze may take, before any pass of the model.

    allowed   token ids allowed in a blank
    sets      the candidates of each blank where they are known already; None where the
              likeliest are to be found
    size      how many candidates per blank
    neighbours  how many likely tokens of every other blank their score looks at
    """

    cloze: Cloze
    allowed: Tensor
    sets: tuple[Tensor, ...] | None
    size: int
    neighbours: int = NEIGHBOURS

    @property
    def passes(self) -> int:
        """Passes of the model that finding the candidates takes."""
        return (
            0
            if self.sets is not None
            else 1 + len(self.cloze.block) * min(self.neighbours, len(self.allowed))
        )

    @property
    def sizes(self) -> list[int]:
        """How many candidates each blank has."""
        return (
            [self.size] * len(self.cloze.block)
            if self.sets is None
            else [len(c) for c in self.sets]
        )


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
    return find_candidates(
        model, [plan_candidates(model, cloze, candidates, exact, force, alphabet)]
    )[0]


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
    allowed = (
        regular_tokens(model)
        if alphabet is None
        else _alphabet(alphabet, regular_tokens(model), cloze)
    )
    k = len(cloze.block)
    if exact and candidates is not None:
        raise InputError(
            "exact and candidates were both given: exact takes every regular token, so leave"
            " candidates out"
        )
    if (
        candidates is not None
        and not isinstance(candidates, int | str)
        and hasattr(candidates, "__len__")
    ):
        sets = _given_sets(candidates, allowed, k)
        check_feasible([len(c) for c in sets], len(allowed), force)
        return CandidatePlan(cloze, allowed, sets, max(len(c) for c in sets))
    if candidates is not None:
        candidates = checks.whole("candidates", candidates, 1, MOST_CANDIDATES)
    small = candidates is None and len(allowed) <= SMALL_VOCABULARY and _fits([len(allowed)] * k)
    neighbours = NEIGHBOURS
    if exact or k == 1 or small:
        size = len(allowed)
    elif candidates is not None:
        size = min(candidates, len(allowed))
    elif alphabet is not None:
        size = _largest(k, len(allowed))
    else:
        size, neighbours = _affordable(k, len(allowed), seconds_per_pass(model, len(cloze.ids)))
    check_feasible([size] * k, len(allowed), force, exact)
    return CandidatePlan(
        cloze, allowed, (allowed,) * k if size == len(allowed) else None, size, neighbours
    )


def find_candidates(
    model: ConditionalModel, plans: Sequence[CandidatePlan], progress: Progress | None = None
) -> list[tuple[Tensor, ...]]:
    """The candidates of several clozes; the passes of texts of one length run together."""
    sets = [plan.sets for plan in plans]
    done, total = 0, sum(plan.passes for plan in plans)
    for members in grouped(
        plans,
        lambda plan: (
            plan.sets is None,
            len(plan.cloze.ids),
            len(plan.cloze.block),
            plan.neighbours,
        ),
    ):
        group = [plans[i] for i in members]
        if group[0].sets is not None:
            continue
        scores = _scores(
            model,
            [plan.cloze for plan in group],
            [plan.allowed for plan in group],
            group[0].neighbours,
        )
        for i, plan, score in zip(members, group, scores, strict=True):
            sets[i] = _best(plan.cloze, score, plan.allowed, plan.size)
        done += sum(plan.passes for plan in group)
        if progress:
            progress(done, total, "passes for candidates")
    return [of_blanks for of_blanks in sets if of_blanks is not None]


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
    fits = _largest(len(sizes), vocabulary)
    use = (
        f"{'leave out exact and use' if exact else 'use'} candidates={fits} or fewer"
        if fits > 1
        else "use fewer blanks"
    )
    raise InputError(
        f"{len(sizes)} blanks with {' x '.join(f'{n:,}' for n in sizes)} candidates need"
        f" {pass_count(sizes):,} passes of the model and {prod(sizes):,} cells per table (limits"
        f" {MAX_PASSES:,} and {MAX_CELLS:,}): {use}, or force=True"
    )


def likely_tokens(
    model: ConditionalModel, cloze: Cloze, size: int, regular: Tensor, neighbours: int = NEIGHBOURS
) -> tuple[Tensor, ...]:
    """The `size` tokens of each blank with the highest score (see above), best first."""
    return _best(cloze, _scores(model, [cloze], [regular], neighbours)[0], regular, size)


def _scores(
    model: ConditionalModel, clozes: Sequence[Cloze], allowed: Sequence[Tensor], neighbours: int
) -> list[Tensor]:
    """For each cloze, all of one length and one number of blanks, the score (k, allowed tokens)."""
    k = len(clozes[0].block)
    masked = [
        m.float().softmax(-1)[:, a]
        for m, a in zip(masked_logits(model, clozes), allowed, strict=True)
    ]
    likely = [m.topk(min(neighbours, m.shape[1])) for m in masked]
    scores = [m / 2 for m in masked]
    for s in range(k):
        beside = [t for t in range(k) if t != s]
        rows, positions = [], []
        for cloze, (_, place), tokens in zip(clozes, likely, allowed, strict=True):
            texts = torch.tensor([cloze.ids], device=model.device).repeat(place.shape[1], 1)
            texts[:, cloze.block[s]] = tokens[place[s]]
            rows.append(texts)
            positions.append(
                torch.tensor([[cloze.block[t] for t in beside]], device=model.device).expand(
                    len(texts), -1
                )
            )
        for i, logits in enumerate(_in_calls(model, rows, positions)):
            weight = likely[i].values[s]
            q = logits.float().softmax(-1)[..., allowed[i]]
            scores[i][beside] += torch.einsum("y,ytx->tx", weight / weight.sum(), q) / (2 * (k - 1))
    return scores


def _in_calls(
    model: ConditionalModel, rows: Sequence[Tensor], positions: Sequence[Tensor]
) -> Iterator[Tensor]:
    """The logits of each text's rows; as many texts per call as fill a batch of the model."""
    waiting: list[int] = []
    most = rows_at_once(model, rows[0].shape[1])
    for i in range(len(rows)):
        waiting.append(i)
        if i + 1 == len(rows) or sum(len(rows[j]) for j in [*waiting, i + 1]) > most:
            logits = model.logits(
                torch.cat([rows[j] for j in waiting]), torch.cat([positions[j] for j in waiting])
            )
            yield from logits.split([len(rows[j]) for j in waiting])
            waiting = []


def _best(cloze: Cloze, score: Tensor, allowed: Tensor, size: int) -> tuple[Tensor, ...]:
    if cloze.gold is not None:
        score[allowed == torch.tensor(cloze.gold, device=allowed.device)[:, None]] = torch.inf
    return tuple(allowed[row.topk(size).indices] for row in score)


def _alphabet(alphabet: Sequence[int], regular: Tensor, cloze: Cloze) -> Tensor:
    known, ids = set(regular.tolist()), list(dict.fromkeys(int(i) for i in alphabet))
    wrong = [i for i in ids if i not in known]
    if wrong or not ids:
        what = f"has {wrong[0]}, which is not a regular token of the model" if wrong else "is empty"
        raise InputError(f"the alphabet {what}: name tokens that a text can have")
    missing = [i for i in cloze.gold or () if i not in set(ids)]
    if missing:
        raise InputError(
            f"the target with token id {missing[0]} is not in the alphabet: add it, or choose"
            " another target"
        )
    return torch.tensor(ids, device=regular.device)


def _affordable(sites: int, vocabulary: int, seconds: float) -> tuple[int, int]:
    """Candidates per blank, and neighbours that their score looks at: MOST_PASSES halved until
    the answer takes SECONDS.
    """
    passes = MOST_PASSES
    while True:
        size = min(default_size(sites, passes), vocabulary)
        neighbours = min(max(2, NEIGHBOURS * passes // MOST_PASSES), vocabulary)
        if (
            passes <= LEAST_PASSES
            or seconds * (1 + sites * neighbours + pass_count([size] * sites)) <= SECONDS
        ):
            return size, neighbours
        passes //= 2


def _fits(sizes: Sequence[int], passes: int = MAX_PASSES) -> bool:
    """Whether candidate sets of these sizes need at most this many passes, and MAX_CELLS cells."""
    return prod(sizes) <= MAX_CELLS and pass_count(sizes) <= passes


def _largest(sites: int, most: int, passes: int = MAX_PASSES) -> int:
    """The largest n <= most that fits with n candidates at each of `sites` blanks; at least 1."""
    return max(
        1, bisect_left(range(1, most + 1), True, key=lambda n: not _fits([n] * sites, passes))
    )


def _given_sets(
    candidates: Sequence[Sequence[int]], regular: Tensor, sites: int
) -> tuple[Tensor, ...]:
    known = set(regular.tolist())

    def check(blank: int, token: int) -> None:
        if token not in known:
            raise InputError(
                f"candidate {token} of blank {blank} is not a regular token of the model: take"
                " it out"
            )

    return tuple(
        tokens.to(regular.device) for tokens in token_sets("candidate", candidates, sites, check)
    )


def seconds_per_pass(model: ConditionalModel, tokens: int) -> float:
    """About how many seconds one pass of a text of `tokens` tokens takes, in batches."""
    return (model.multiplications(tokens) or 0) / SPEED.get(model.device.type, SPEED["cuda"])
