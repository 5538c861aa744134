"""`compare`: every construction on the blanks of one text, side by side.

For each joint mu: its entropy H(mu), its total correlation sum_t H(mu_t) - H(mu) (the mutual
information of a pair), and how far its conditionals lie from the model's (A-KL); where the
tokens that stood in the blanks are known, the other metrics too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from math import exp
from os import PathLike
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from unmask.common.cloze import Cloze, ids_of_filling
from unmask.common.errors import InputError
from unmask.common.excerpts import around_blanks
from unmask.common.figure_files import figure_path, save_figure
from unmask.common.results import Result
from unmask.common.texts import for_each
from unmask.joints.constructions.construction import Construction
from unmask.joints.deriving import derive_blocks
from unmask.joints.incompatibility import incompatibility
from unmask.joints.joint import (
    Joint,
    most_probable,
    not_converged,
    refuse_impossible_contexts,
)
from unmask.joints.metrics import metrics_of_block
from unmask.joints.reading import read_joints
from unmask.joints.registry import DEFAULT, INDEPENDENT, named
from unmask.models.first_look import look_at_first
from unmask.models.load import Model, as_model
from unmask.models.masked_lm import MaskedLM
from unmask.models.text.blanks import cloze_of
from unmask.runs.progress import Progress
from unmask.tables.conditionals import Conditionals
from unmask.tables.lattice import lattice
from unmask.tables.unary import Tables
from unmask.verbs.answers.blanked_text import (
    BlankedText,
    Grid,
    complete,
    mass_in_words,
    with_gold,
    with_tables,
)

if TYPE_CHECKING:
    import pandas

    from unmask.common.figures import Figure


@dataclass(frozen=True)
class ComparedCompletion(Result):
    """One filling of the blanks and its log-probability under each construction, given that it
    lies in the candidates.

    orders_log_prob is that of the chain rule averaged over all orders
    (`unmask.tables.lattice`), over the whole vocabulary or the alphabet.
    """

    KEYS: ClassVar[tuple[str, ...]] = (
        "tokens",
        "text",
        "gold=is_gold",
        "log_probs",
        "orders_log_prob",
    )

    tokens: tuple[str, ...]
    text: str
    log_probs: dict[str, float]
    orders_log_prob: float
    is_gold: bool


@dataclass(frozen=True)
class Description(Result):
    """One construction on this text, in nats; the last four are None where the gold tokens are
    unknown.

    gold_log_prob and the perplexities are those of the tokens that stood in the blanks.
    """

    OPTIONAL: ClassVar[tuple[str, ...]] = ("gold_log_prob", "g_kl", "u_ppl", "p_ppl")

    entropy: float
    total_correlation: float
    a_kl: float
    gold_log_prob: float | None = None
    g_kl: float | None = None
    u_ppl: float | None = None
    p_ppl: float | None = None


@dataclass(frozen=True, repr=False)
class Comparison(Result):
    """The joints of all constructions over the same tables, and what can be said of each.

    text, model      the text with its blanks; the model
    joints           one joint per construction, by name
    ranked_by, top   the construction whose most probable fillings are shown, and how many
    cloze            the text as token ids, and where its blanks are
    support          the tokens allowed in a blank, for the chain rule over all orders

    >>> text = "The [MASK] [MASK] at the casino."
    >>> comparison = unmask.compare(text, constructions="product,chain", candidates=32)
    >>> product, chain = comparison.joints['product'], comparison.joints['chain']
    >>> product.mutual_information() < chain.mutual_information()
    True
    """

    KEYS: ClassVar[tuple[str, ...]] = (
        "text",
        "candidates_mass",
        "warning",
        "incompatibility",
        "joints=descriptions",
        "ranked_by",
        "completions",
    )
    OPTIONAL: ClassVar[tuple[str, ...]] = ("warning",)

    text: str
    joints: dict[str, Joint]
    ranked_by: str
    model: MaskedLM
    cloze: Cloze
    support: Tensor
    top: int

    @property
    def candidates_mass(self) -> float:
        """The share of the product joint that lies in the candidate sets; the joints are given
        that the blanks do.
        """
        return exp(self._tables.log_mass)

    @property
    def _tables(self) -> Tables:
        return next(iter(self.joints.values())).tables

    @cached_property
    def incompatibility(self) -> float:
        """How far the model's conditionals are from any joint: root mean square, in nats
        (`unmask.joints.incompatibility`).

        Of two blanks it is zero if and only if one joint has both conditionals; of more it is
        that of all pairs of tables.
        """
        return incompatibility(self._tables)

    @cached_property
    def descriptions(self) -> dict[str, Description]:
        """Entropy, total correlation and faithfulness of each construction."""
        joints, gold = list(self.joints.values()), self.cloze.gold
        measured: list[tuple[float, ...]]
        if gold is None:
            measured = [(reading.average_kl,) for reading in read_joints(joints)]
        else:
            measured = [
                (m.a_kl, -m.joint_nll, m.g_kl, m.u_ppl, m.p_ppl)
                for m in metrics_of_block(joints, gold).joints
            ]
        rows = [
            Description(j.entropy(), j.total_correlation(), *m)
            for j, m in zip(joints, measured, strict=True)
        ]
        return dict(zip(self.joints, rows, strict=True))

    @cached_property
    def completions(self) -> list[ComparedCompletion]:
        """The `top` most probable fillings by the construction that ranks them, and the gold
        one if known.
        """
        rows = with_gold(
            most_probable(self.joints[self.ranked_by], self.top)[0], self.cloze
        ).tolist()
        sites = torch.tensor([self.cloze.block]).expand(len(rows), -1)
        texts = torch.tensor([ids_of_filling(self.cloze, row) for row in rows])
        over_orders = lattice(
            Conditionals(self.model, self.support), texts, sites
        ).log_mean.tolist()
        completions = []
        for row, orders_log_prob in zip(rows, over_orders, strict=True):
            filled = complete(self.model, self.cloze, row, 0.0, 0.0)
            log_probs = {name: float(joint.log_prob(row)) for name, joint in self.joints.items()}
            completions.append(
                ComparedCompletion(
                    filled.tokens, filled.text, log_probs, orders_log_prob, filled.is_gold
                )
            )
        return completions

    @property
    def warning(self) -> str | None:
        """A sentence if a construction did not converge."""
        return not_converged(self.joints.values()) or None

    def to_frame(self) -> pandas.DataFrame:
        """One row per completion, one column of probabilities per construction, then that of
        the chain rule over all orders.
        """
        import pandas

        rows = [
            {
                "completion": " ".join(c.tokens),
                **{n: exp(p) for n, p in c.log_probs.items()},
                "all_orders": exp(c.orders_log_prob),
            }
            for c in self.completions
        ]
        return pandas.DataFrame(rows).set_index("completion")

    def figure(self) -> Figure:
        """Heat maps of the joint of two blanks, independent and by the default construction (or
        the last one compared).
        """
        from unmask.verbs.answers.plots import pair_joints

        shown = [self.joints.get(INDEPENDENT), self.joints.get(DEFAULT)]
        joints = [joint for joint in shown if joint is not None] or list(self.joints.values())[-1:]
        return pair_joints(joints, title=self.text)

    def __repr__(self) -> str:
        return f"Comparison({self.text!r}, {', '.join(self.joints)}; ranked by {self.ranked_by})"

    @property
    def headline(self) -> str:
        """The text, and what the candidates hold."""
        shape = " x ".join(map(str, self._tables.shape))
        return f"{self.text}: {shape} {mass_in_words(self._tables)}"

    def _repr_html_(self) -> str:
        import pandas

        described = pandas.DataFrame(
            {name: row.to_dict() for name, row in self.descriptions.items()}
        ).T
        shares = self.to_frame().map("{:.2%}".format)
        return f"<p>{escape(self.headline)}</p>{described.to_html()}{shares.to_html()}"


def comparisons(
    texts: Sequence[str],
    model: Model,
    constructions: Sequence[Construction],
    construction: str | None,
    grid: Grid,
    top: int,
    figure: str | PathLike[str] | None,
    progress: Progress | None,
) -> Iterator[Comparison]:
    """The answers of `compare`, one by one; everything is checked before the first."""
    names = [one.name for one in constructions]
    if construction in names:
        ranked_by = construction
    elif construction is not None:  # perhaps another spelling of one, such as family:0.50
        ranked_by = named(construction, "construction").name
    elif DEFAULT in names:
        ranked_by = DEFAULT
    else:
        ranked_by = names[-1]
    if ranked_by not in names:
        raise InputError(
            f"{ranked_by} is not among those compared ({', '.join(names)})",
            argument="construction",
            use="add it, or rank by another",
        )
    where = figure_path(figure, len(texts), (model, grid.alphabet))
    lm = as_model(model)

    def read(text: str) -> BlankedText:
        cloze = cloze_of(
            lm.words,
            text,
            positions=grid.positions,
            targets=grid.targets,
            max_length=lm.max_length,
        )
        blanked = BlankedText.read(lm, text, cloze, grid)
        blanks = len(blanked.cloze.block)
        if blanks < 2:
            shown = around_blanks(text, 60)
            raise InputError(
                f"the text {shown!r} has one blank, where all constructions coincide: give more, or"
                " use fill"
            )
        if where is not None and blanks != 2:
            raise InputError(
                f"is of two blanks, and the text has {blanks}",
                argument="figure",
                use="leave it out",
            )
        return blanked

    every = for_each(texts, read)
    look_at_first(lm, (text.cloze.ids for text in every))
    for text, tables in with_tables(lm, every, progress):
        refuse_impossible_contexts(tables, "metrics")
        derived = dict(zip(names, derive_blocks([tables], constructions)[0], strict=True))
        comparison = Comparison(
            text.text, derived, ranked_by, lm, text.cloze, text.plan.allowed, top
        )
        yield comparison
        save_figure(comparison.figure, where)
