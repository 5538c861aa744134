"""The search of texts with so many blanks that a filling has too many states to pass over all.

1. Beams find fillings, for a part of the passes.
2. The passes that are left score the best of them. The probability of each is the mean of p_o
   over sampled orders o, with its standard error. All fillings of a variant have the same orders,
   which follow from its number of blanks, the passes of the search and the seed alone.

Nothing is certain here: the mass is an estimate, too.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from unmask.common.cloze import ids_of_filling
from unmask.joints.filling_search.beams import PARTS_OF_BUDGET, affordable_width, follow_beams
from unmask.joints.filling_search.budget import PassBudget
from unmask.joints.filling_search.found import ChainSearch, ScoredFilling, best_first
from unmask.joints.filling_search.pool import FillingPool
from unmask.tables.exploration import Exploration, State
from unmask.tables.lattice import along_orders, log_mean_of_sampled, random_orders

FILLINGS = 10  # A search can pay for the orders of so many
LEAST_ORDERS = 8  # Sampled orders of a filling
MOST_ORDERS = 128


def by_sampled_orders(
    pool: FillingPool,
    budget: PassBudget,
    wanted: Sequence[State],
    seed: int,
) -> ChainSearch:
    """Beams, then scores along sampled orders.

    seed    of the orders
    wanted  fillings that are scored whatever they cost, in addition to those that the passes
            left can pay for
    """
    exploration = pool.exploration
    exploration.reveal([exploration.states[root] for root in exploration.roots])
    for index in range(len(exploration.variants)):
        width = affordable_width(exploration, index, budget.most)
        follow_beams(exploration, index, width, after_step=budget.report)

    passes_per_filling = max(
        variant.sites * number_of_orders(variant.sites, budget.most)
        for variant in exploration.variants
    )
    affordable = max(1, budget.left // passes_per_filling)
    found_by_beams = pool.candidates()[:affordable]
    of_wanted = [exploration.number(filling) for filling in wanted]
    chosen = list(dict.fromkeys([*of_wanted, *found_by_beams]))  # without repetitions, in order

    chosen_states = [exploration.states[number] for number in chosen]
    scored: list[ScoredFilling] = []
    for index in range(len(exploration.variants)):
        of_variant = [state for state in chosen_states if state[0] == index]
        if of_variant:
            orders = number_of_orders(exploration.variants[index].sites, budget.most)
            scored += _scored(exploration, of_variant, orders=orders, seed=seed)
    return ChainSearch(
        fillings=best_first(scored),
        bound=pool.bound_beyond(chosen),
        passes=budget.taken,
        stopped="passes",
        exact=False,
        rounding=exploration.rounding,
    )


def number_of_orders(sites: int, passes: int) -> int:
    """How many orders the fillings of a variant have, in a search of at most `passes`: as many as
    FILLINGS fillings can have of the passes that are not the beams', between LEAST_ORDERS and
    MOST_ORDERS.
    """
    passes_of_scores = passes - passes // PARTS_OF_BUDGET
    walks = passes_of_scores // sites  # one filling along one order: a pass per site
    return min(MOST_ORDERS, max(LEAST_ORDERS, walks // FILLINGS))


def _scored(
    exploration: Exploration,
    fillings: Sequence[State],
    orders: int,
    seed: int,
) -> list[ScoredFilling]:
    """Fillings of one variant with their mean over the same sampled orders.

    fillings  n of them
    orders    m, how many are sampled, with this seed
    """
    index = fillings[0][0]
    variant = exploration.variants[index]
    cloze = variant.cloze
    n = len(fillings)
    # One draw of shape (1, m, k) and one row of positions (1, k), for all fillings
    generator = torch.Generator().manual_seed(seed)
    orders_of_one = random_orders(texts=1, orders=orders, sites=variant.sites, generator=generator)
    positions_of_one = torch.tensor([cloze.block])
    texts = torch.tensor([ids_of_filling(cloze, filling[1:]) for filling in fillings])  # (n, T)
    by_order = along_orders(  # (n, m)
        exploration.conditionals,
        texts,
        sites=positions_of_one.expand(n, -1),
        orders=orders_of_one.expand(n, -1, -1),
    )
    log_means, errors = log_mean_of_sampled(by_order)
    scored: list[ScoredFilling] = []
    for filling, log_mean, error in zip(fillings, log_means.tolist(), errors.tolist(), strict=True):
        scored.append(
            ScoredFilling(
                variant=index,
                tokens=filling[1:],
                log_prob=log_mean + variant.log_weight,
                product_log_prob=exploration.log_product(filling),
                standard_error=error,
            )
        )
    return scored
