"""`compare`: every construction on the blanks of one text, side by side.

For each joint mu: its entropy H(mu), its total correlation sum_t H(mu_t) - H(mu) (the mutual information of a pair), and how
far its conditionals lie from the model's (A-KL); where the tokens that stood in the blanks are known, the other metrics too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from math import exp
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from unmask.answers.filling import complete
from unmask.cloze import Cloze
from unmask.errors import InputError
from unmask.joints import CONSTRUCTIONS, Joint, derive_all
from unmask.joints.compatibility import compatibility
from unmask.joints.faithfulness import read_joints
from unmask.joints.metrics import Summary, block_metrics, summarise
from unmask.joints.registry import all_named
from unmask.models.given import as_model
from unmask.models.masked_lm import MaskedLM
from unmask.runs.progress import Progress
from unmask.tables.candidates import choose_candidates
from unmask.tables.unary import Tables, unary_tables

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class ComparedCompletion:
    """One filling of the blanks and its log-probability under each construction, given that it lies in the candidates."""

    tokens: tuple[str, ...]
    text: str
    log_probs: dict[str, float]
    is_gold: bool


@dataclass(frozen=True)
class Description:
    """One construction on this text, in nats; the last four are None where the gold tokens are unknown.

    gold_log_prob and the perplexities are those of the tokens that stood in the blanks.
    """

    entropy: float
    total_correlation: float
    a_kl: float
    gold_log_prob: float | None = None
    g_kl: float | None = None
    u_ppl: float | None = None
    p_ppl: float | None = None


@dataclass(frozen=True)
class Comparison:
    """The joints of all constructions over the same tables, and what can be said of each."""

    text: str
    joints: dict[str, Joint]
    model: MaskedLM
    cloze: Cloze
    top: int

    @property
    def candidates_mass(self) -> float:
        """The share of the product joint that lies in the candidate sets; the joints are given that the blanks do."""
        return exp(self._tables.log_mass)

    @property
    def _tables(self) -> Tables:
        return next(iter(self.joints.values())).tables

    @cached_property
    def compatibility(self) -> float:
        """Zero if and only if the model's conditionals come from one joint; see `unmask.joints.compatibility`."""
        return compatibility(self._tables)

    @cached_property
    def descriptions(self) -> dict[str, Description]:
        """Entropy, total correlation and faithfulness of each construction."""
        joints = list(self.joints.values())
        if self.cloze.gold is None:
            a_kl = [reading.average_kl for reading in read_joints(joints)]
            rows = [Description(j.entropy(), j.total_correlation(), kl) for j, kl in zip(joints, a_kl, strict=True)]
            return dict(zip(self.joints, rows, strict=True))
        block = block_metrics(joints, self.cloze.gold)
        perplexities: Sequence[Summary] = summarise([block]).summaries
        return {
            joint.name: Description(
                joint.entropy(),
                joint.total_correlation(),
                measured.a_kl,
                -measured.joint_nll,
                measured.g_kl,
                row.u_ppl,
                row.p_ppl,
            )
            for joint, measured, row in zip(joints, block.joints, perplexities, strict=True)
        }

    @cached_property
    def completions(self) -> list[ComparedCompletion]:
        """The `top` fillings with the highest probability on average over the constructions, and the gold one if known."""
        found = torch.cat([joint.topk(self.top)[0] for joint in self.joints.values()]).unique(dim=0)
        gold = None if self.cloze.gold is None else list(self.cloze.gold)
        log_probs = torch.stack([joint.log_prob(found).double() for joint in self.joints.values()])
        best = log_probs.exp().mean(0).topk(min(self.top, len(found))).indices
        rows = found[best].tolist()
        if gold is not None and gold not in rows:
            rows.append(gold)
        return [self._completion(row, row == gold) for row in rows]

    def _completion(self, row: list[int], is_gold: bool) -> ComparedCompletion:
        filled = complete(self.model, self.cloze, row, 0.0, 0.0)
        log_probs = {name: float(joint.log_prob(row)) for name, joint in self.joints.items()}
        return ComparedCompletion(filled.tokens, filled.text, log_probs, is_gold)

    def to_dict(self) -> dict[str, object]:
        """What `unmask compare --json` prints."""
        return {
            "text": self.text,
            "candidates_mass": self.candidates_mass,
            "compatibility": self.compatibility,
            "joints": {
                name: {key: value for key, value in vars(row).items() if value is not None}
                for name, row in self.descriptions.items()
            },
            "completions": [
                {"tokens": list(c.tokens), "text": c.text, "gold": c.is_gold, "log_probs": c.log_probs} for c in self.completions
            ],
        }

    def to_frame(self) -> pandas.DataFrame:
        """One row a completion, one column of probabilities a construction."""
        import pandas

        rows = [{"completion": " ".join(c.tokens), **{n: exp(p) for n, p in c.log_probs.items()}} for c in self.completions]
        return pandas.DataFrame(rows).set_index("completion")

    def _repr_html_(self) -> str:
        described = "".join(
            f"<tr><td>{name}</td><td>{row.entropy:.3f}</td><td>{row.total_correlation:.3f}</td><td>{row.a_kl:.4f}</td></tr>"
            for name, row in self.descriptions.items()
        )
        return (
            f"<p>{escape(self.text)}<br>the candidates hold {self.candidates_mass:.1%} of the product joint</p>"
            f"<table><tr><th></th><th>entropy</th><th>total correlation</th><th>A-KL</th></tr>{described}</table>"
            f"{self.to_frame().map('{:.2%}'.format).to_html()}"
        )


def compare(
    text: str,
    model: MaskedLM | str | Path | None = None,
    candidates: int | Sequence[Sequence[int]] | None = None,
    exact: bool = False,
    top: int = 10,
    positions: Sequence[int] | None = None,
    targets: Sequence[str] | None = None,
    joints: Sequence[str] | None = None,
    device: str = "auto",
    dtype: str = "auto",
    force: bool = False,
    progress: Progress | None = None,
) -> Comparison:
    """The joints of two or more blanks by every construction, or those named in `joints`; options as in `fill`.

    The tokens that stood in the blanks are known where `positions` of a whole text are given, or `targets`, one a blank.
    """
    names = list(CONSTRUCTIONS) if joints is None else [construction.name for construction in all_named(joints)]
    if top < 1:
        raise InputError(f"{top} completions were asked for: give 1 or more")
    lm = as_model(model, device, dtype)
    cloze = lm.cloze(text, positions, targets)
    if len(cloze.block) < 2:
        raise InputError("the text has one blank, where all constructions coincide: give two or more, or use fill")
    tables = unary_tables(lm, cloze, choose_candidates(lm, cloze, candidates, exact, force), progress=progress)
    return Comparison(text, dict(zip(names, derive_all(tables, names), strict=True)), lm, cloze, top)
