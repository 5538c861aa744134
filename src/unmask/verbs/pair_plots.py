"""Figures of answers: heat maps with matplotlib, and the map of two blanks that the page draws.

    cells       log mu(x, y)                     of the construction shown
    product     log m_a(x) + log m_b(y)          of independent blanks, beside it
    given       mu(y | x) and q_b(y | x)
                with a word x pinned: the joint's conditional, and the model's own

All are conditional on both blanks lying in their candidate sets. The user's text is drawn as it
is, without LaTeX: a dollar sign in it is not mathematics.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, inf
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from unmask.common.errors import InputError
from unmask.common.excerpts import around_blanks
from unmask.joints.joint import Joint, conditional, mutual_information

if TYPE_CHECKING:
    from unmask.common.figures import Figure

TOKENS_SHOWN, LABELLED_CELLS = 12, 8
WEAK, STRONG = 0.05, 0.5
"""Nats of mutual information below which blanks are called nearly independent, and from which
on strongly dependent.
"""
NEARLY = 0.38
"""Incompatibility in nats up to which conditionals are said to nearly agree with one joint; up
to 4 times that, not quite.

Once 0.5 of a number that was larger. Over 40 pairs of blanks in sentences of English Web
Treebank 37 verdicts stay with 0.38, and 28 would with 0.5.
"""


def pair_joints(joints: Sequence[Joint], title: str) -> Figure:
    """Heat maps of joints of two blanks over the same tables, one panel each, on one scale.

    They show the TOKENS_SHOWN tokens of each blank with the highest marginal probability on
    average over the joints; the LABELLED_CELLS most probable cells have their number in them.
    """
    from unmask.common.figures import Figure, PowerNorm

    if any(joint.sites != 2 for joint in joints):
        raise InputError(
            f"a heat map needs two blanks, these joints have {joints[0].sites}: leave the"
            " figure out"
        )
    marginals = [torch.stack([joint.marginals()[t] for joint in joints]).mean(0) for t in (0, 1)]
    rows, columns = (
        marginal.topk(min(TOKENS_SHOWN, len(marginal))).indices for marginal in marginals
    )
    index = (rows.repeat_interleave(len(columns)), columns.repeat(len(rows)))
    cells = [
        100 * j.log_tile(index).double().exp().reshape(len(rows), len(columns)).cpu()
        for j in joints
    ]
    brightest = max(float(c.max()) for c in cells)
    figure = Figure(figsize=(1.2 + 4.6 * len(joints), 5.4), layout="constrained")
    axes = figure.subplots(1, len(joints), sharey=True, squeeze=False)[0]
    tables = joints[0].tables
    for joint, values, panel in zip(joints, cells, axes, strict=True):
        image = panel.imshow(
            values.numpy(), cmap="Blues", norm=PowerNorm(0.5, 0, brightest), aspect="auto"
        )
        panel.set_title(
            f"{joint.name}: mutual information {abs(mutual_information(joint)):.2f} nats",
            fontsize=11,
        )
        names = [tables.spelled(1, int(tables.candidates[1][i])) for i in columns]
        panel.set_xticks(range(len(columns)), names, rotation=60, ha="right", parse_math=False)
        panel.set_xlabel("second blank")
        for place in values.flatten().topk(min(LABELLED_CELLS, values.numel())).indices.tolist():
            row, column = divmod(place, len(columns))
            value = float(values[row, column])
            colour = "white" if value > brightest / 3 else "black"
            panel.text(
                column, row, f"{value:.1f}", ha="center", va="center", fontsize=7, color=colour
            )
    names = [tables.spelled(0, int(tables.candidates[0][i])) for i in rows]
    axes[0].set_yticks(range(len(rows)), names, parse_math=False)
    axes[0].set_ylabel("first blank")
    figure.colorbar(image, ax=axes, label="probability (%)", shrink=0.8)
    figure.suptitle(around_blanks(title, 40 + 40 * len(joints)), parse_math=False)
    return figure


def pair_map(
    joint: Joint,
    product: Joint,
    shown: int = 16,
    pinned: tuple[int, int] | None = None,
    gold: Sequence[int] | None = None,
) -> dict[str, Any]:
    """The map of two blanks under a joint, beside the product over the same tables: plain
    lists, which the page draws.

    shown    tokens along each edge: those with the highest marginal of the joint and of the
             product on average
    gold     the ids of the two tokens that stand there, which are always shown
    pinned   (blank, token id): the first blank is 0

    axes      of each blank the tokens shown, likeliest first, and their probabilities with the
              other blank unknown; `stands` is the id of its gold token
    joint     probabilities of the cells, rows of the first blank; `product`: with independent
              blanks
    given     the likeliest tokens y of the other blank with x pinned: mu(y | x), mu(y) before,
              and the model's own q(y | x)
    """
    marginals, apart = joint.marginals(), product.marginals()
    axes = []
    for t in (0, 1):
        weight = marginals[t] + apart[t]
        if gold is not None:
            weight = weight.masked_fill(
                (joint.tables.candidates[t] == gold[t]).to(weight.device), torch.inf
            )
        place = weight.topk(min(shown, joint.shape[t])).indices
        place = place[marginals[t][place].argsort(descending=True)]
        numbers = {"marginal": marginals[t][place].tolist(), "product": apart[t][place].tolist()}
        axes.append(
            {**_tokens(joint, t, place), **numbers, "stands": None if gold is None else gold[t]}
        )
    rows = torch.cartesian_prod(*[torch.tensor(axis["ids"]) for axis in axes])
    size = (len(axes[0]["ids"]), len(axes[1]["ids"]))
    cells = {
        name: law.log_prob(rows).reshape(size).exp().tolist()
        for name, law in (("joint", joint), ("product", product))
    }
    return {
        "axes": axes,
        **cells,
        "given": None if pinned is None else _with_pinned(joint, marginals, *pinned, shown),
    }


def dependence_in_words(joint: Joint, incompatibility: float) -> str:
    """How dependent two or more blanks are under a joint, and how far the model's conditionals
    are from one, in words.
    """
    information = max(0.0, joint.total_correlation())
    how = (
        "nearly independent"
        if information < WEAK
        else "dependent"
        if information < STRONG
        else "strongly dependent"
    )
    if incompatibility <= NEARLY:
        agree = "nearly agree"
    elif incompatibility <= 4 * NEARLY:
        agree = "do not quite agree"
    else:
        agree = "disagree"
    if joint.sites == 2:
        divided = f"one divides the perplexity of the other by {exp(information):.2f}"
        measured = f"{information:.2f} nats of mutual information; {divided}"
    else:
        measured = f"{information:.2f} nats of total correlation"
    if incompatibility < inf:
        apart = f"{incompatibility:.2f} nats apart (root mean square)"
    else:
        apart = "one rules out tokens that the other allows"
    return (
        f"The blanks are {how}: {measured}. The model's conditionals {agree} with one joint:"
        f" {apart}."
    )


def _tokens(joint: Joint, blank: int, place: Tensor) -> dict[str, Any]:
    ids = joint.tables.candidates[blank][place].tolist()
    return {"ids": ids, "tokens": [joint.tables.spelled(blank, i) for i in ids]}


def _with_pinned(
    joint: Joint, marginals: Sequence[Tensor], blank: int, token: int, shown: int
) -> dict[str, Any]:
    other = 1 - blank
    given_token = conditional(joint, other, [token])
    place = given_token.topk(min(shown, len(given_token))).indices
    at = int((joint.tables.candidates[blank] == token).nonzero()[0])
    model = joint.tables.log_q[other].select(blank, at).exp()
    numbers = {"given": given_token, "marginal": marginals[other], "model": model}
    lists = {name: values[place].tolist() for name, values in numbers.items()}
    return {
        "blank": blank,
        "token": joint.tables.spelled(blank, token),
        **_tokens(joint, other, place),
        **lists,
    }
