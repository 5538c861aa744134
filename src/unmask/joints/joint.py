"""A joint distribution over a block: a rule over the block's tables, whose numbers stream out
of tiles.

    mu(x) = exp(rule(x)) / Z,   Z = sum_x exp(rule(x))

A construction supplies `rule`, which reads cells of the tables and vectors at an index;
everything here is a reduction over tiles of the first axis, so that nothing of the tables' size
is made unless `dense` is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from math import exp, isfinite, prod
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from unmask.common import checks
from unmask.common.errors import InputError
from unmask.common.formats import percent_at_least, percent_at_most
from unmask.common.signature import checked
from unmask.joints.distribution import Distribution
from unmask.joints.registry import SEARCHED
from unmask.joints.rules import Index, Rule, tiles
from unmask.tables.unary import Tables

if TYPE_CHECKING:
    import pandas

MOST_DRAWS, LARGEST_SEED = 10**9, 2**63 - 1
SHOWN = 10  # Fillings in a notebook


@dataclass(frozen=True, eq=False, repr=False)
class Joint:
    """A normalised distribution over the block. It is complete when built, and does not change.

    name        the construction that it came from
    tables      the block's conditionals, which also know how a token is shown
    rule        unnormalised log-probabilities of cells
    report      how it was found: steps, objective, pivot, ...
    known_log_z  log Z where the construction knows it; else it is summed when first asked for

    >>> joint = unmask.fill("The [MASK] [MASK] at the casino.", candidates=16).joint
    >>> round(float(joint.dense().exp().sum()), 3), tuple(joint.sample(5, seed=0).shape)
    (1.0, (5, 2))
    """

    name: str
    tables: Tables
    rule: Rule
    report: Mapping[str, object] = field(default_factory=dict)
    known_log_z: float | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return self.tables.shape

    @property
    def sites(self) -> int:
        return len(self.shape)

    def log_tile(self, index: Index) -> Tensor:
        """Log-probabilities of the cells at `index`."""
        return self.rule(index) - self.log_z

    @cached_property
    def log_z(self) -> float:
        """log of the rule's normaliser; raises if it is not finite, for example if the rule
        divides by a probability of 0.
        """
        log_z = self.known_log_z
        if log_z is None:
            sums = [
                self.rule(i).double().logsumexp(tuple(range(self.sites)))
                for i in tiles(self.tables.log_q[0])
            ]
            log_z = float(torch.stack(sums).logsumexp(0))
        if not isfinite(log_z):
            raise no_joint(self.name)
        return log_z

    def dense(self) -> Tensor:
        """All log-probabilities: prod(shape) numbers."""
        return self.log_tile(tuple(slice(0, n) for n in self.shape))

    def log_prob(
        self,
        values: (
            Sequence[int]
            | Sequence[str]
            | Sequence[Sequence[int]]
            | Sequence[Sequence[str]]
            | Tensor
        ),
    ) -> Tensor:
        """log mu of token ids, shape (k,) or (n, k), or of tokens as they are spelled: k of
        them, or rows of k.

        Token ids outside the candidates have log-probability -inf; spelled tokens outside them
        are refused.
        """
        ids = self._ids(self._without_names(values))
        places, known = self._places(ids.reshape(-1, self.sites))
        return torch.where(known, self.log_tile(places), -torch.inf).reshape(ids.shape[:-1])

    def _without_names(self, values: Any) -> Any:
        """`values` with ids for the tokens that are spelled out, in one filling or in rows of
        them.
        """
        if not isinstance(values, list | tuple):
            return values
        if any(isinstance(row, list | tuple) for row in values):
            return [self._with_ids(row) for row in values]
        return self._with_ids(values)

    def _with_ids(self, values: Any) -> Any:
        """One filling with ids for the tokens that are spelled out; anything else as it is."""
        if not isinstance(values, list | tuple):
            return values
        if len(values) != self.sites or not any(isinstance(token, str) for token in values):
            return values
        return self.tables.ids_of(values, range(self.sites))

    def _ids(self, values: Sequence[int] | Sequence[Sequence[int]] | Tensor) -> Tensor:
        """Token ids of one filling, or of one per row, as a tensor."""
        with suppress(TypeError, ValueError, RuntimeError):
            ids = torch.as_tensor(values, device=self.tables.candidates[0].device)
            whole = not (ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool)
            if whole and ids.dim() and ids.shape[-1] == self.sites:
                return ids
        shown, k = checks.shown(values), self.sites
        raise InputError(
            f"values {shown} are not token ids of {k} blanks: give {k} whole numbers, or rows"
            f" of {k}"
        )

    def _places(self, rows: Tensor) -> tuple[tuple[Tensor, ...], Tensor]:
        places, known = [], torch.ones(len(rows), dtype=torch.bool, device=rows.device)
        for t, candidates in enumerate(self.tables.candidates):
            order = candidates.argsort()
            place = order[
                torch.searchsorted(candidates[order], rows[:, t].contiguous()).clamp(
                    max=len(candidates) - 1
                )
            ]
            known &= candidates[place] == rows[:, t]
            places.append(place)
        return tuple(places), known

    @cached_property
    def _log_marginals(self) -> tuple[Tensor, ...]:
        sums: list[list[Tensor]] = [[] for _ in range(self.sites)]
        for index in tiles(self.tables.log_q[0]):
            tile = self.log_tile(index)
            for t, parts in enumerate(sums):
                others = tuple(s for s in range(self.sites) if s != t)
                part = tile.logsumexp(others) if others else tile
                parts[:] = (
                    [*parts, part]
                    if t == 0
                    else [torch.logaddexp(parts[0], part) if parts else part]
                )
        return tuple(torch.cat(s) for s in sums)

    def marginals(self) -> tuple[Distribution, ...]:
        """k probability vectors, mu_t(x_t), over each axis' candidates."""
        return tuple(
            self._labelled(site, log_marginal.exp())
            for site, log_marginal in enumerate(self._log_marginals)
        )

    @checked
    def marginal(self, site: int) -> Distribution:
        """mu(x_site), the other sites of the block summed out, over the candidates of `site`."""
        checks.whole("site", site, 0, self.sites - 1)
        return self.marginals()[site]

    @checked
    def conditional(self, site: int, given: Sequence[int] | Sequence[str]) -> Distribution:
        """mu(x_site | the other sites of the block have the tokens `given`, ids or spelled),
        over the candidates of `site`.
        """
        checks.whole("site", site, 0, self.sites - 1)
        if len(given) != self.sites - 1:
            raise InputError(
                f"{len(given)} tokens were given for {self.sites - 1} other sites: give one for"
                " each"
            )
        row = self.tables.ids_of(given, [t for t in range(self.sites) if t != site])
        row.insert(site, int(self.tables.candidates[site][0]))
        places, known = self._places(self._ids([row]))
        if not bool(known.all()):
            raise InputError(
                f"tokens {list(given)} are not all among the candidates: add them to the candidate"
                " sets"
            )
        index = tuple(
            slice(0, n) if t == site else slice(int(places[t]), int(places[t]) + 1)
            for t, n in enumerate(self.shape)
        )
        _ = self.log_z  # raises where the construction has no joint
        cells = self.rule(index).flatten()
        if bool((cells == -torch.inf).all()):
            raise InputError(
                f"tokens {list(given)} have probability 0 in {self.name}: give tokens that it"
                " allows together"
            )
        return self._labelled(site, cells.softmax(0))

    def _labelled(self, site: int, probabilities: Tensor) -> Distribution:
        ids = self.tables.candidates[site].tolist()
        return Distribution.of(probabilities, lambda: [self.tables.spelled(site, i) for i in ids])

    @checked
    def topk(self, n: int) -> tuple[Tensor, Tensor]:
        """The n most probable fillings: token ids (n, k) and their log-probabilities, best
        first.
        """
        n = min(checks.whole("n", n, 1, MOST_DRAWS), prod(self.shape))
        best = torch.empty(0, device=self.tables.candidates[0].device)
        where = torch.empty(0, dtype=torch.long, device=best.device)
        stride = prod(self.shape[1:])
        for index in tiles(self.tables.log_q[0]):
            tile = self.log_tile(index).flatten()
            score, place = tile.topk(min(n, len(tile)))
            start = index[0].start * stride
            best, where = (
                torch.cat([best.to(score.dtype), score]),
                torch.cat([where, place + start]),
            )
            best, keep = best.topk(min(n, len(best)))
            where = where[keep]
        return self._tokens(where), best

    def _tokens(self, cells: Tensor) -> Tensor:
        places = [cells // prod(self.shape[t + 1 :]) % self.shape[t] for t in range(self.sites)]
        return torch.stack([c[p] for c, p in zip(self.tables.candidates, places, strict=True)], -1)

    @checked
    def sample(self, n: int, seed: int) -> Tensor:
        """n independent draws, token ids (n, k): the first site from its marginal, then the
        rest given it.
        """
        checks.whole("n", n, 1, MOST_DRAWS)
        generator = torch.Generator().manual_seed(checks.whole("seed", seed, 0, LARGEST_SEED))
        first = (
            self._log_marginals[0]
            .double()
            .exp()
            .cpu()
            .multinomial(n, replacement=True, generator=generator)
        )
        cells = torch.empty(n, dtype=torch.long)
        stride = prod(self.shape[1:])
        rest = tuple(slice(0, m) for m in self.shape[1:])
        for row in first.unique().tolist():
            drawn = first == row
            weights = self.rule((slice(row, row + 1), *rest)).flatten().double().softmax(0).cpu()
            cells[drawn] = row * stride + weights.multinomial(
                int(drawn.sum()), replacement=True, generator=generator
            )
        return self._tokens(cells.to(self.tables.candidates[0].device)).cpu()

    def entropy(self) -> float:
        """H(mu) = -sum mu log mu, in nats."""
        parts = (self.log_tile(index).exp() for index in tiles(self.tables.log_q[0]))
        return sum(float(torch.special.entr(part).sum(dtype=torch.float64)) for part in parts)

    def total_correlation(self) -> float:
        """sum_t H(mu_t) - H(mu) = KL(mu || product of its marginals), in nats; the mutual
        information of a pair.
        """
        return (
            sum(float(torch.special.entr(m.double()).sum()) for m in self.marginals())
            - self.entropy()
        )

    @checked
    def mutual_information(self, site: int = 0, other: int = 1) -> float:
        """I(x_site; x_other) under mu, in nats, the block's other sites summed out."""
        checks.whole("site", site, 0, self.sites - 1)
        if checks.whole("other", other, 0, self.sites - 1) == site:
            raise InputError(
                f"site and other are both {site}: name two sites of the block's {self.sites}"
            )
        if self.sites == 2:
            return self.total_correlation()
        pair = torch.zeros(
            self.shape[site],
            self.shape[other],
            dtype=torch.float64,
            device=self._log_marginals[0].device,
        )
        away = tuple(s for s in range(self.sites) if s not in (site, other))
        for index in tiles(self.tables.log_q[0]):
            part = self.log_tile(index).double().exp().sum(away)
            pair[index[site], index[other]] += part if site < other else part.T
        entropies = torch.special.entr(pair.sum(0)).sum() + torch.special.entr(pair.sum(1)).sum()
        return float(entropies - torch.special.entr(pair).sum())

    @checked
    def to_frame(self, top: int = 20) -> pandas.DataFrame:
        """The `top` fillings, best first: one column per site with its tokens, then log_prob
        and prob.
        """
        import pandas

        checks.whole("top", top, 1, MOST_DRAWS)
        ids, scores = self.topk(top)
        tokens = [
            [self.tables.spelled(site, i) for site, i in enumerate(row)] for row in ids.tolist()
        ]
        frame = pandas.DataFrame(tokens, columns=[f"blank_{t + 1}" for t in range(self.sites)])
        return frame.assign(log_prob=scores.tolist(), prob=scores.double().exp().tolist())

    def _repr_html_(self) -> str:
        share = (
            f"; the candidates hold {percent_at_least(exp(self.tables.log_mass))} of the product"
            " joint"
        )
        about = (
            f"{' &times; '.join(map(str, self.shape))}"
            f" fillings{share if self.tables.log_mass < 0 else ''}"
        )
        return f"<p><b>{escape(self.name)}</b> joint over {about}</p>" + self.to_frame(
            SHOWN
        ).to_html(index=False)

    def __repr__(self) -> str:
        return f"Joint({self.name}, shape={self.shape})"


def no_joint(name: str) -> InputError:
    """The error about a construction whose rule has no finite normaliser."""
    return InputError(
        f"{name} has no joint over these tables: the model rules out tokens that it multiplies or"
        f" divides by; use another construction, such as {SEARCHED}"
    )


def refuse_impossible_contexts(tables: Tables, what: str) -> None:
    """Raise for what needs a distribution over the candidates in every context, where the
    tables lack one; `what` it is.
    """
    if tables.some_context_is_impossible:
        raise InputError(
            f"{what} cannot be computed over these tables: where some candidates stand together,"
            " the model rules out all those of another blank; give more candidates, or use"
            f" {SEARCHED}"
        )


def not_converged(joints: Iterable[Joint]) -> str:
    """A sentence that names the constructions which iterate and did not converge, with a bound;
    empty if all did.
    """
    missed = {
        joint.name: joint.report for joint in joints if joint.report.get("converged") is False
    }
    if not missed:
        return ""
    bounds = [report["bound"] for report in missed.values() if "bound" in report]
    finite = [bound for bound in bounds if isinstance(bound, float)]
    bound = (
        f" (none is further than {percent_at_most(max(finite))} from its limit)" if finite else ""
    )
    bound = (
        bound if len(finite) == len(bounds) else " (how far they are from their limit is not known)"
    )
    remedy = "use another construction, or fewer candidates"
    return (
        f"{', '.join(missed)} did not converge, and the probabilities are approximate{bound}:"
        f" {remedy}"
    )
