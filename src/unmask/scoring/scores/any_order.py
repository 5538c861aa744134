"""The mean over all orders of the chain rule.

    any_order            log (1/k!) sum over orders o of p_o(x)
    any_order_mean_log   (1/k!) sum over orders of log p_o(x), below it

p_o reveals the k sites in order o: p_o(x) = product over t of q(x_t | the tokens before t in o),
q over the regular tokens. Both come from the lattice of revealed sets (`unmask.tables.lattice`),
exact up to `exact_tokens` sites (2^k - 1 passes). Beyond, `orders` orders are drawn per text: the
mean of p_o is unbiased, and any_order_se is the standard error of its logarithm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar

from annotated_types import Interval

from unmask.common.lazy import torch
from unmask.common.methods.method import method
from unmask.scoring.scores.score import Score, Scored, Seed

if TYPE_CHECKING:
    from jaxtyping import Float, Int
    from torch import Tensor

    from unmask.models.conditional_model import ConditionalModel
    from unmask.runs.progress import Progress
    from unmask.scoring.text_batch import TextBatch
    from unmask.tables.conditionals import Conditionals

ROWS_TOGETHER = 2**16
"""Revealed texts made at once, over all texts of a call."""
SEEDS = 2**63 - 1
"""Seeds of torch's generators are below this."""


@method
class AnyOrder(Score):
    """log of the mean over all orders of the chain rule's probability, q over the regular
    tokens; any_order_mean_log: mean of the logs

    Parameters:
        exact_tokens: Exact up to this many tokens, in 2^k - 1 passes for k tokens.
        orders: Orders sampled for longer texts.
        seed: Seed of the sampled orders.

    >>> scores = unmask.score(["The cats sit here."], unmask.AnyOrder(exact_tokens=2, orders=8))
    >>> scores.rows[0]["any_order"] >= scores.rows[0]["any_order_mean_log"]
    True
    """

    exact_tokens: Annotated[int, Interval(ge=0, le=16)] = 14
    orders: Annotated[int, Interval(ge=2, le=10**6)] = 64
    seed: Seed = 0

    name = "any_order"
    place = 70
    probability = True
    extra: ClassVar[tuple[str, ...]] = ("se", "mean_log")
    why = "a mean of probabilities"

    def cost(self, sites: int) -> int:
        """Passes of the lattice of revealed sets, or of the sampled orders."""
        if sites <= self.exact_tokens:
            return 2**sites - 1
        return sites * self.orders

    def compute(
        self, model: ConditionalModel, batch: TextBatch, progress: Progress | None = None
    ) -> Scored:
        """The score of every text, exact or from sampled orders."""
        from unmask.tables.conditionals import Conditionals, regular_tokens

        sites = batch.sites.shape[1]
        is_exact = sites <= self.exact_tokens
        rows_of_text = 2**sites if is_exact else self.orders
        planned = len(batch) * self.cost(sites)
        conditionals = Conditionals(model, regular_tokens(model), progress, planned)
        at_once = max(1, ROWS_TOGETHER // rows_of_text)
        parts = []
        for start in range(0, len(batch), at_once):
            part = batch.part(slice(start, start + at_once))
            if is_exact:
                parts.append(_over_all_orders(conditionals, part))
            else:
                parts.append(self._over_sampled_orders(conditionals, part))
        log_mean, *more = (torch.cat(column) for column in zip(*parts, strict=True))
        return Scored(log_mean, extra=dict(zip(self.extra, more, strict=True)))

    def _over_sampled_orders(
        self, conditionals: Conditionals, batch: TextBatch
    ) -> tuple[Float[Tensor, " n"], Float[Tensor, " n"], Float[Tensor, " n"]]:
        """any_order from sampled orders, its standard error, and the mean of the logs."""
        from unmask.tables.lattice import along_orders, log_mean_of_sampled, random_orders

        sites = batch.sites.shape[1]
        drawn = []
        for ids_of_text, sites_of_text in zip(batch.ids, batch.sites, strict=True):
            generator = torch.Generator().manual_seed(self._seed_of(ids_of_text, sites_of_text))
            drawn.append(random_orders(1, self.orders, sites, generator))
        orders = torch.cat(drawn).to(conditionals.model.device)
        log_p = along_orders(conditionals, batch.ids, batch.sites, orders)
        log_mean, error = log_mean_of_sampled(log_p)
        return log_mean, error, log_p.mean(1)

    def _seed_of(self, ids: Int[Tensor, " T"], sites: Int[Tensor, " k"]) -> int:
        """A seed that depends on the text and the score's seed alone, not on the text's company."""
        from unmask.runs.fingerprint import content_hash

        text = f"{self.seed} {ids.tolist()} {sites.tolist()}"
        return int(content_hash(text), 16) % SEEDS


def _over_all_orders(
    conditionals: Conditionals, batch: TextBatch
) -> tuple[Float[Tensor, " n"], Float[Tensor, " n"], Float[Tensor, " n"]]:
    """any_order exactly, its standard error, which is 0, and the mean of the logs."""
    from unmask.tables.lattice import lattice

    orders = lattice(conditionals, batch.ids, batch.sites)
    log_mean = orders.log_mean
    return log_mean, torch.zeros_like(log_mean), orders.mean_log
