"""The numbers of mutants, from the joint of the positions that they change.

For positions S of a sequence w and tokens x at them, all else as in w, mu is the joint of S
that a construction derives:

    log_prob      log mu(x)
                  normalised over the alphabet at every position of S
    effect        log mu(x) - log mu(w)
    singles       sum_{t in S} log q_t(x_t | w) - log q_t(w_t | w)
                  the model's own conditionals, all else as in w
    epistasis     effect - singles
                  0 where the changes add up
    interaction   log mu(x) - log mu(w) - sum_t [log mu(x_t, w) - log mu(w)]

Epistasis compares the joint with the model's effect of each change alone; interaction is the
same difference inside the joint. If the conditionals come from one joint the two are equal;
their difference shows how far to trust either.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from unmask.joints.joint import Joint

NUMBERS = ("log_prob", "effect", "singles", "epistasis", "interaction")


def effects(joint: Joint, wild: Sequence[int]) -> dict[str, Tensor]:
    """The five numbers for all fillings of a block, by name: float64 with an axis per position.

    wild   the places, among each position's candidates, of the tokens of the sequence
    """
    tables = joint.tables
    if tables.sites == 1:
        log_prob = tables.log_q[0].double()
    else:
        log_prob = joint.dense().double()
    axes = log_prob.dim()
    singles = torch.zeros_like(log_prob)
    singles_of_joint = torch.zeros_like(log_prob)  # the same sum inside the joint
    for t in range(axes):
        # One position varies, the others have the tokens of the sequence.
        line: list[int | slice] = list(wild)
        line[t] = slice(None)
        along_axis = [1] * axes
        along_axis[t] = -1
        log_q = tables.log_q[t][tuple(line)].double()
        log_mu = log_prob[tuple(line)]
        singles = singles + (log_q - log_q[wild[t]]).reshape(along_axis)
        singles_of_joint = singles_of_joint + (log_mu - log_mu[wild[t]]).reshape(along_axis)
    effect = log_prob - log_prob[tuple(wild)]
    return {
        "log_prob": log_prob,
        "effect": effect,
        "singles": singles,
        "epistasis": effect - singles,
        "interaction": effect - singles_of_joint,
    }
