"""One pair: from a cloze to the numbers of every construction, over the whole vocabulary as in the paper."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from unmask.cloze import Cloze
from unmask.errors import InputError
from unmask.joints import derive_all
from unmask.joints.metrics import block_metrics
from unmask.models.conditional_model import ConditionalModel
from unmask.tables.unary import unary_tables


@torch.inference_mode()
def measure_pair(
    model: ConditionalModel, cloze: Cloze, constructions: Sequence[str], arnold_gokhale_steps: int | None = None
) -> list[dict[str, Any]]:
    """One row a construction: the terms of U-PPL and P-PPL, A-KL, G-KL, compatibility, and steps and objective."""
    if cloze.gold is None:
        raise InputError("the pair's own tokens are not known: give the text without blanks, and the positions")
    tables = unary_tables(model, cloze)
    options: dict[str, dict[str, object]] = {"arnold_gokhale": {"steps": arnold_gokhale_steps}} if arnold_gokhale_steps else {}
    joints = derive_all(tables, constructions, options)
    found = block_metrics(joints, cloze.gold)
    return [
        {
            "construction": of.construction,
            "unary_nll_first": of.unary_nll[0],
            "unary_nll_second": of.unary_nll[1],
            "pair_nll": of.joint_nll,
            "a_kl": of.a_kl,
            "g_kl": of.g_kl,
            "compatibility": found.compatibility,
            "objective": of.objective,
            "steps": joint.report.get("steps"),
        }
        for of, joint in zip(found.joints, joints, strict=True)
    ]
