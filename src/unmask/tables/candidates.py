"""Candidate sets: the tokens of each blank over which a joint is derived.

A joint of k blanks over n tokens each costs about k n^(k-1) passes of the model, so a large vocabulary is cut down to the
n tokens of each blank t with the highest

    score_t(x) = m_t(x) / 2 + 1/(2(k-1)) sum_{s != t} sum_y w_s(y) q_t(x | x_s = y; the other blanks masked),

where m_t is the model's distribution with every blank masked and w_s is m_s over its most likely tokens y. The first term
alone misses what is likely only beside the right neighbour (the second half of a name); the second costs a few passes.
Special tokens ([CLS], [PAD], [MASK], [UNK], ...) are outside the support of a filled text and are never candidates.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from unmask.cloze import Cloze
from unmask.errors import InputError
from unmask.models.conditional_model import ConditionalModel
from unmask.tables.unary import pass_count

SMALL_VOCABULARY = 64
"""A vocabulary of at most so many regular tokens (amino acids, characters) is taken whole, where the limits allow."""
LARGEST_DEFAULT = 512
DEFAULT_PASSES = 1500
"""What a default answer may cost: about two seconds of the bundled model on a CPU."""
MAX_PASSES = 200_000
MAX_CELLS = 1_000_000_000
"""Beyond these a joint is refused unless asked for with force: hours on a CPU, and gigabytes for each table."""
NEIGHBOURS = 64
"""How many likely tokens of every other blank the second term of the score looks at."""


def choose_candidates(
    model: ConditionalModel,
    cloze: Cloze,
    candidates: int | Sequence[Sequence[int]] | None = None,
    exact: bool = False,
    force: bool = False,
) -> tuple[Tensor, ...]:
    """Token ids for each blank: every regular token if `exact`, the given sets, or the `candidates` most likely of each.

    Gold tokens of the cloze, where known, are always among them.
    """
    regular = regular_tokens(model)
    k = len(cloze.block)
    if exact and candidates is not None:
        raise InputError("exact and candidates were both given: exact takes every regular token, so leave candidates out")
    if candidates is not None and not isinstance(candidates, int):
        sets = _given_sets(candidates, regular, k)
        check_feasible([len(c) for c in sets], len(regular), force)
        return sets
    if isinstance(candidates, int) and candidates < 1:
        raise InputError(f"{candidates} candidates a blank were asked for: give 1 or more")
    whole = exact or k == 1 or (candidates is None and _small_enough(len(regular), k))
    size = len(regular) if whole else min(candidates or default_size(k), len(regular))
    check_feasible([size] * k, len(regular), force)
    if size == len(regular):
        return (regular,) * k
    return likely_tokens(model, cloze, size, regular)


def regular_tokens(model: ConditionalModel) -> Tensor:
    """Ids of the tokens that can stand in a text: all but the special ones."""
    keep = torch.ones(model.vocab_size, dtype=torch.bool)
    keep[[i for i in model.special_ids if i < model.vocab_size]] = False
    return keep.nonzero().flatten().to(model.device)


def default_size(sites: int) -> int:
    """The largest number of candidates a blank that keeps the passes within DEFAULT_PASSES; at least 2."""
    return max(2, _largest(sites, LARGEST_DEFAULT, DEFAULT_PASSES, MAX_CELLS))


def check_feasible(sizes: Sequence[int], vocabulary: int, force: bool = False) -> None:
    """Refuse, before any pass, a joint that needs more than MAX_PASSES passes or MAX_CELLS cells."""
    k = len(sizes)
    cells, passes = 1, pass_count(list(sizes))
    for size in sizes:
        cells *= size
    if force or (passes <= MAX_PASSES and cells <= MAX_CELLS):
        return
    fits = _largest(k, vocabulary, MAX_PASSES, MAX_CELLS)
    advice = f"use --candidates {fits} or fewer, or --force" if fits > 1 else "use fewer blanks, or --force"
    raise InputError(
        f"{k} blanks with {' x '.join(f'{n:,}' for n in sizes)} candidates need {passes:,} passes of the model and "
        f"{cells:,} cells a table (limits {MAX_PASSES:,} and {MAX_CELLS:,}): {advice}"
    )


def likely_tokens(
    model: ConditionalModel, cloze: Cloze, size: int, regular: Tensor, neighbours: int = NEIGHBOURS
) -> tuple[Tensor, ...]:
    """The `size` tokens of each blank with the highest score (see above), best first."""
    k = len(cloze.block)
    ids = torch.tensor([cloze.ids], device=model.device)
    block = torch.tensor([cloze.block], device=model.device)
    masked = model.logits(ids, block)[0].float().softmax(-1)[:, regular]
    weight, place = masked.topk(min(neighbours, len(regular)))
    score = masked / 2
    for s in range(k):
        beside = [t for t in range(k) if t != s]
        rows = ids.repeat(place.shape[1], 1)
        rows[:, cloze.block[s]] = regular[place[s]]
        given = model.logits(rows, block[:, beside].expand(len(rows), -1)).float().softmax(-1)[..., regular]
        mean = torch.einsum("y,ytx->tx", weight[s] / weight[s].sum(), given)
        score[beside] += mean / (2 * (k - 1))
    if cloze.gold is not None:
        score[regular == torch.tensor(cloze.gold, device=model.device)[:, None]] = torch.inf
    return tuple(regular[score[t].topk(size).indices] for t in range(k))


def _small_enough(vocabulary: int, sites: int) -> bool:
    sizes = [vocabulary] * sites
    return vocabulary <= SMALL_VOCABULARY and vocabulary**sites <= MAX_CELLS and pass_count(sizes) <= MAX_PASSES


def _largest(sites: int, most: int, passes: int, cells: int) -> int:
    """The largest n <= most with at most so many passes and cells for n candidates at each of `sites` blanks."""
    low, high = 1, most
    while low < high:
        middle = (low + high + 1) // 2
        fits = middle**sites <= cells and pass_count([middle] * sites) <= passes
        low, high = (middle, high) if fits else (low, middle - 1)
    return low


def _given_sets(candidates: Sequence[Sequence[int]], regular: Tensor, sites: int) -> tuple[Tensor, ...]:
    if len(candidates) != sites:
        raise InputError(f"{len(candidates)} candidate sets for {sites} blanks: give one set a blank")
    known = set(regular.tolist())
    for t, tokens in enumerate(candidates):
        wrong = [i for i in tokens if i not in known]
        if wrong:
            raise InputError(f"candidate {wrong[0]} of blank {t + 1} is no regular token of the model: take it out")
        if not tokens or len(set(tokens)) != len(tokens):
            raise InputError(f"the candidates of blank {t + 1} are empty or name a token twice: name each token once")
    return tuple(torch.tensor(list(tokens), device=regular.device) for tokens in candidates)
