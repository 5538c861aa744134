"""Texts with blanks and the tables of their blanks, as `fill` and `compare` share them.

Every text is read, and every bad request raises, before the model runs. The passes of many
texts run together, a group of texts at a time. The answers come out one by one, in order, so
that a long file need not fit into memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp, prod

import torch
from jaxtyping import Int
from torch import Tensor

from unmask.common.cloze import Cloze
from unmask.common.errors import InputError
from unmask.common.formats import percent_at_least
from unmask.models.masked_lm import MaskedLM
from unmask.runs.progress import Progress
from unmask.tables.candidates import CandidatePlan, Candidates, find_candidates, plan_candidates
from unmask.tables.joint_limits import is_feasible
from unmask.tables.unary import Tables, tables_of

MOST_TOGETHER = 64  # Texts of a group
CELLS_TOGETHER = 2**26  # Cells of the tables of a group
FEW = 0.5  # Candidates that hold less than this share of the product joint are reported as few
GOLD_MARK = " *"  # After a filling with the tokens that stood in the blanks


@dataclass(frozen=True)
class BlankedText:
    """A text, its blanks, and how the candidates of each are found."""

    text: str
    cloze: Cloze
    plan: CandidatePlan

    @classmethod
    def of(
        cls,
        model: MaskedLM,
        text: str,
        cloze: Cloze,
        candidates: Candidates,
        letters: Sequence[int] | None,
        force: bool,
    ) -> BlankedText:
        """A text with the blanks of `cloze`; raises if its table would be too large.

        If the cloze knows the tokens that stood in the blanks, they are among the candidates.

        letters   ids of the alphabet's tokens; None without one
        """
        plan = plan_candidates(model, cloze, candidates, force=force, alphabet=letters)
        return cls(text=text, cloze=cloze, plan=plan)


def refuse_all_of_alphabet(
    candidates: Candidates, letters: Sequence[int] | None, blanks: int
) -> None:
    """Raise if all candidates are asked for beside an alphabet that is taken whole anyway.

    letters   ids of the alphabet's tokens; None without one
    """
    if letters is None or candidates != "all":
        return
    sizes_of_all = [len(letters)] * blanks
    if is_feasible(sizes_of_all):  # such an alphabet is taken whole without `candidates`, too
        raise InputError(
            "all is how an alphabet is taken", argument="candidates", use="leave it out"
        )


def with_tables(
    model: MaskedLM, texts: Sequence[BlankedText], progress: Progress | None, all_texts: bool = True
) -> Iterator[tuple[BlankedText, Tables]]:
    """The tables of every text, in order, a group of texts at a time.

    Progress counts passes if one group holds all texts of the call, and texts otherwise.

    all_texts   whether these are all texts of the call
    """
    groups = list(_groups(texts))
    count_passes = None
    count_texts = progress
    if all_texts and len(groups) == 1:
        count_passes = progress
        count_texts = None
    done = 0
    for group in groups:
        clozes = [text.cloze for text in group]
        candidates = find_candidates(model, [text.plan for text in group], count_passes)
        supports = [[text.plan.allowed] * len(text.cloze.block) for text in group]
        tables = tables_of(model, clozes, candidates, progress=count_passes, supports=supports)
        if count_passes:
            count_passes(0, 0, "deriving the joint")  # 0 of 0: nothing to count
        yield from zip(group, tables, strict=True)
        done += len(group)
        if count_texts:
            count_texts(done, len(texts), "texts")


def _groups(texts: Sequence[BlankedText]) -> Iterator[list[BlankedText]]:
    """Runs of texts whose tables are made together: at most MOST_TOGETHER texts, and CELLS_TOGETHER
    cells. A text with more cells is a group by itself.
    """
    group: list[BlankedText] = []
    cells_of_group = 0
    for text in texts:
        tables = len(text.plan.sizes)  # one per blank
        cells = tables * prod(text.plan.sizes)
        is_full = len(group) == MOST_TOGETHER or cells_of_group + cells > CELLS_TOGETHER
        if group and is_full:
            yield group
            group = []
            cells_of_group = 0
        group.append(text)
        cells_of_group += cells
    if group:
        yield group


def sizes_in_words(shape: Sequence[int]) -> str:
    """The sizes of a table, for example 256 x 256."""
    return " x ".join(f"{size:,}" for size in shape)


def mass_in_words(tables: Tables) -> str:
    """How much of the product joint, or of the model's own distribution of one blank, the
    candidates hold, in words.
    """
    mass = exp(tables.log_mass)
    of_what = "its mass" if tables.sites == 1 else "the product joint"
    words = f"tokens hold {percent_at_least(mass)} of {of_what}"
    if mass >= FEW:
        return words
    words += ", less than half: probabilities are conditional on them"
    # The log of the share that each blank's candidates hold of the tokens allowed in it.
    holds_all_allowed = all(log_share == 0 for log_share in tables.log_masked_inside)
    return words if holds_all_allowed else f"{words}; give more candidates"


def kept_candidates(
    masks: Sequence[Tensor | None] | None, candidates: Sequence[Int[Tensor, " n"]]
) -> list[Tensor | None] | None:
    """For each blank which of its candidates a mask of the whole vocabulary keeps; None for all."""
    if masks is None:
        return None
    kept: list[Tensor | None] = []
    for mask, tokens in zip(masks, candidates, strict=True):
        if mask is None:
            kept.append(None)
        else:
            kept.append(mask[tokens.cpu()])
    return kept


def with_gold(rows: Tensor, cloze: Cloze) -> Tensor:
    """Token ids of fillings, one per row; a last row has the tokens that stood in the blanks, if
    they are known and no other row has them.
    """
    if cloze.gold is None:
        return rows
    gold = torch.tensor([cloze.gold], dtype=rows.dtype, device=rows.device)
    is_gold = (rows == gold).all(1)  # row by row
    if bool(is_gold.any()):
        return rows
    return torch.cat([rows, gold])
