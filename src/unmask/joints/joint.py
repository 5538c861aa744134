"""A joint distribution over a block: a rule over the block's tables, read in tiles.

    mu(x) = exp(rule(x)) / Z,   Z = sum_x exp(rule(x))

A construction supplies `rule`, which reads cells of the tables and vectors at an index. Sums over
the block are taken over tiles of its first axis, so that nothing of the tables' size is made
unless `dense` is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from math import exp, isfinite, prod
from typing import TYPE_CHECKING, Annotated, Any

import torch
from annotated_types import Interval
from torch import Tensor

from unmask.common import checks
from unmask.common.border.calls import checked
from unmask.common.errors import InputError, argument_name
from unmask.common.formats import percent_at_least, percent_at_most
from unmask.joints.distribution import Distribution
from unmask.joints.registry import SEARCHED
from unmask.joints.rules import Rule
from unmask.joints.tiles import Index, Tile, tiles
from unmask.tables.unary import Tables, token_ids

if TYPE_CHECKING:
    import pandas

MOST_FILLINGS = 10**9  # Of one call of `topk`, `sample` or `to_frame`
LARGEST_SEED = 2**63 - 1  # The same for every seed of unmask
SHOWN = 10  # Fillings in a notebook
Count = Annotated[int, Interval(ge=1, le=MOST_FILLINGS)]
Seed = Annotated[int, Interval(ge=0, le=LARGEST_SEED)]


@dataclass(frozen=True, eq=False, repr=False)
class Joint:
    """A normalised distribution over the block. It is complete when built, and does not change.

    name        the name of the construction that it came from
    tables      the block's conditionals, which also know how a token is shown
    rule        unnormalised log-probabilities of cells
    report      how it was found: steps, objective, pivot, ...
    known_log_z  log Z if the construction knows it; else it is summed when first asked for

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

    @property
    def _device(self) -> torch.device:
        return self.tables.candidates[0].device

    def _tiles(self) -> Iterator[Tile]:
        """Indices of the tiles of the block, in the order of its first axis."""
        return tiles(self.tables.log_q[0])  # every log_q has the shape of the block

    def log_tile(self, index: Index) -> Tensor:
        """Log-probabilities of the cells at `index`."""
        return self.rule(index) - self.log_z

    @cached_property
    def log_z(self) -> float:
        """log Z. Raises if it is not finite, as when the rule divides by a probability of 0."""
        self._refuse_infinite_log_z()
        return self._log_z

    @cached_property
    def _log_z(self) -> float:
        """log Z, whether or not it is finite."""
        if self.known_log_z is not None:
            return self.known_log_z
        every_axis = tuple(range(self.sites))
        sums = [self.rule(index).double().logsumexp(every_axis) for index in self._tiles()]
        return float(torch.stack(sums).logsumexp(0))

    def _refuse_infinite_log_z(self) -> None:
        if not isfinite(self._log_z):
            raise no_joint(self.name)

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
        """log mu of n fillings, shape (n,), or of one, shape ().

        Each of the k tokens of a filling is an id or is spelled: `values` are token ids of shape
        (k,) or (n, k), k tokens, or rows of k tokens. Token ids outside the candidates have
        log-probability -inf. Spelled tokens outside them raise an error.
        """
        ids = self._id_tensor(self._with_ids_for_spelled(values))
        fillings = ids.reshape(-1, self.sites)
        places, known = self._places(fillings)
        log_probs = torch.where(known, self.log_tile(places), -torch.inf)
        return log_probs.reshape(ids.shape[:-1])

    def _with_ids_for_spelled(self, values: Any) -> Any:
        """`values`, one filling or rows of them, with token ids in place of spelled tokens.

        Anything else comes back as it is: `_id_tensor` refuses it.
        """
        if not isinstance(values, list | tuple):
            return values
        has_rows = any(isinstance(row, list | tuple) for row in values)
        if has_rows:
            return [self._filling_with_ids(row) for row in values]
        return self._filling_with_ids(values)

    def _filling_with_ids(self, values: Any) -> Any:
        """One filling with token ids in place of spelled tokens; anything else as it is."""
        if not isinstance(values, list | tuple) or len(values) != self.sites:
            return values
        has_spelled = any(isinstance(token, str) for token in values)
        if not has_spelled:
            return values
        return token_ids(self.tables, values, range(self.sites))

    def _id_tensor(self, values: Sequence[int] | Sequence[Sequence[int]] | Tensor) -> Tensor:
        """Token ids of one filling, shape (k,), or of one per row; raises for other values."""
        try:
            ids = torch.as_tensor(values, device=self._device)
        except (TypeError, ValueError, RuntimeError):  # torch's errors for what is not an array
            raise self._not_ids(values) from None
        is_whole = not (ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool)
        if not is_whole or ids.dim() == 0 or ids.shape[-1] != self.sites:
            raise self._not_ids(values)
        return ids

    def _not_ids(self, values: object) -> InputError:
        k = self.sites
        return InputError(
            f"{checks.shown(values)} are not token ids of {k} blanks",
            argument="values",
            use=f"give {k} whole numbers, or rows of {k}",
        )

    def _refuse_no_site(self, argument: str, site: int) -> None:
        checks.whole(argument, site, 0, self.sites - 1)

    def _places(self, fillings: Tensor) -> tuple[tuple[Tensor, ...], Tensor]:
        """Where n fillings are in the tables, and which of them are there.

        fillings  token ids, shape (n, k)
        returns   an index of n cells; and for each filling whether all its tokens are candidates,
                  shape (n,). A token that is no candidate has the place of some candidate.
        """
        places = []
        known = torch.ones(len(fillings), dtype=torch.bool, device=fillings.device)
        for t, candidates in enumerate(self.tables.candidates):
            ids = fillings[:, t].contiguous()  # searchsorted warns of any other layout
            order = candidates.argsort()
            rank = torch.searchsorted(candidates[order], ids)
            # An id above every candidate has rank len(candidates), where no candidate is.
            rank = rank.clamp(max=len(candidates) - 1)
            place = order[rank]
            known &= candidates[place] == ids
            places.append(place)
        return tuple(places), known

    @cached_property
    def _log_marginals(self) -> tuple[Tensor, ...]:
        """log mu_t(x_t) of each axis t, over its candidates."""
        first: list[Tensor] = []  # Tiles cut the first axis: its marginal is joined end to end,
        others: dict[int, Tensor] = {}  # and those of the other axes are summed over the tiles.
        for index in self._tiles():
            tile = self.log_tile(index)
            first.append(_log_sum_of_others(tile, 0))
            for t in range(1, self.sites):
                part = _log_sum_of_others(tile, t)
                if t in others:
                    others[t] = torch.logaddexp(others[t], part)
                else:
                    others[t] = part
        return (torch.cat(first), *others.values())

    def marginals(self) -> tuple[Distribution, ...]:
        """k probability vectors, mu_t(x_t), over each axis' candidates."""
        return tuple(
            self._labelled(site, log_marginal.exp())
            for site, log_marginal in enumerate(self._log_marginals)
        )

    @checked
    def marginal(self, site: int) -> Distribution:
        """mu(x_site), the other sites of the block summed out, over the candidates of `site`."""
        self._refuse_no_site("site", site)
        return self.marginals()[site]

    @checked
    def conditional(self, site: int, given: Sequence[int] | Sequence[str]) -> Distribution:
        """mu(x_site | the other sites have the tokens `given`), over the candidates of `site`.

        `given` are token ids or spelled tokens, in the order of the block.
        """
        self._refuse_no_site("site", site)
        if len(given) != self.sites - 1:
            raise InputError(
                f"{len(given)} tokens were given for {self.sites - 1} other sites: "
                "give one for each"
            )
        return self._conditional(site, given)

    def _conditional(self, site: int, given: Sequence[int] | Sequence[str]) -> Distribution:
        other_sites = [t for t in range(self.sites) if t != site]
        filling = token_ids(self.tables, given, other_sites)
        any_candidate = int(self.tables.candidates[site][0])
        filling.insert(site, any_candidate)  # `_places` reads whole fillings
        places, known = self._places(self._id_tensor([filling]))
        if not bool(known.all()):
            raise InputError(
                f"tokens {list(given)} are not all among the candidates: "
                "add them to the candidate sets"
            )
        index = [slice(int(place), int(place) + 1) for place in places]
        index[site] = slice(0, self.shape[site])
        self._refuse_infinite_log_z()  # before the next error, which speaks of a joint
        cells = self.rule(tuple(index)).flatten()  # every other axis has one cell
        if bool((cells == -torch.inf).all()):
            raise InputError(
                f"tokens {list(given)} have probability 0 in {self.name}: "
                "give tokens that it allows together"
            )
        return self._labelled(site, cells.softmax(0))

    def _labelled(self, site: int, probabilities: Tensor) -> Distribution:
        ids = self.tables.candidates[site].tolist()
        return Distribution.of(probabilities, lambda: [self.tables.spelled(site, i) for i in ids])

    @checked
    def topk(self, n: Count) -> tuple[Tensor, Tensor]:
        """The n most probable fillings, best first: token ids (n, k) and log-probabilities (n,)."""
        return self._most_probable(n)

    def _most_probable(self, n: int) -> tuple[Tensor, Tensor]:
        n = min(n, prod(self.shape))
        best = torch.empty(0, device=self._device)  # log-probabilities of the n best so far,
        cells = torch.empty(0, dtype=torch.long, device=self._device)  # and the cells they are of
        cells_per_row = prod(self.shape[1:])
        for index in self._tiles():
            tile = self.log_tile(index).flatten()
            best_of_tile, places = tile.topk(min(n, len(tile)))
            first_cell = index[0].start * cells_per_row
            best = best.to(best_of_tile.dtype)  # it was made before the rule's dtype was known
            best = torch.cat([best, best_of_tile])
            cells = torch.cat([cells, first_cell + places])
            best, kept = best.topk(min(n, len(best)))
            cells = cells[kept]
        return self._tokens(cells), best

    def _tokens(self, cells: Tensor) -> Tensor:
        """Token ids (n, k) of n cells, numbered from 0 with the last axis fastest."""
        columns = []
        for t, candidates in enumerate(self.tables.candidates):
            cells_per_place = prod(self.shape[t + 1 :])
            # torch.unravel_index does the same, but its first call imports sympy: 0.3 seconds.
            places = cells // cells_per_place % self.shape[t]
            columns.append(candidates[places])
        return torch.stack(columns, -1)

    @checked
    def sample(self, n: Count, seed: Seed) -> Tensor:
        """n independent draws, token ids (n, k).

        The first site is drawn from its marginal. The others are drawn together, given the first.
        """
        generator = torch.Generator().manual_seed(seed)  # of the CPU, where all draws are made
        first_marginal = self._log_marginals[0].double().exp().cpu()
        first_places = first_marginal.multinomial(n, replacement=True, generator=generator)
        cells = torch.empty(n, dtype=torch.long)
        cells_per_row = prod(self.shape[1:])
        rest = [slice(0, m) for m in self.shape[1:]]
        for row in first_places.unique().tolist():
            draws = first_places == row
            log_weights = self.rule((slice(row, row + 1), *rest)).flatten()
            given_first = log_weights.double().softmax(0).cpu()
            count = int(draws.sum())
            within_row = given_first.multinomial(count, replacement=True, generator=generator)
            cells[draws] = row * cells_per_row + within_row
        return self._tokens(cells.to(self._device)).cpu()

    def entropy(self) -> float:
        """H(mu) = -sum mu log mu, in nats."""
        parts = (self.log_tile(index).exp() for index in self._tiles())
        return sum(_entropy(part) for part in parts)

    def total_correlation(self) -> float:
        """sum_t H(mu_t) - H(mu) = KL(mu || product of its marginals), in nats.

        For a pair this is the mutual information.
        """
        of_marginals = sum(_entropy(marginal.double()) for marginal in self.marginals())
        return of_marginals - self.entropy()

    @checked
    def mutual_information(self, site: int = 0, other: int = 1) -> float:
        """I(x_site; x_other) under mu, in nats, the block's other sites summed out."""
        self._refuse_no_site("site", site)
        self._refuse_no_site("other", other)
        if other == site:
            raise InputError(
                f"and {argument_name('other')} are both {site}",
                argument="site",
                use=f"name two sites of the block's {self.sites}",
            )
        return self._mutual_information(site, other)

    def _mutual_information(self, site: int, other: int) -> float:
        if self.sites == 2:
            return self.total_correlation()
        pair_shape = (self.shape[site], self.shape[other])
        pair = torch.zeros(pair_shape, dtype=torch.float64, device=self._device)
        summed_out = tuple(t for t in range(self.sites) if t not in (site, other))
        for index in self._tiles():
            part = self.log_tile(index).double().exp().sum(summed_out)
            if other < site:  # the axes of `part` are in the order of the block
                part = part.T
            pair[index[site], index[other]] += part
        return _entropy(pair.sum(0)) + _entropy(pair.sum(1)) - _entropy(pair)

    @checked
    def to_frame(self, top: Count = 20) -> pandas.DataFrame:
        """The `top` fillings, best first: one column per site with its tokens, log_prob, prob."""
        return self._frame(top)

    def _frame(self, top: int) -> pandas.DataFrame:
        from unmask.common.lazy import pandas

        ids, log_probs = self._most_probable(top)
        rows = []
        for filling in ids.tolist():
            rows.append([self.tables.spelled(site, i) for site, i in enumerate(filling)])
        frame = pandas.DataFrame(rows, columns=[f"blank_{t + 1}" for t in range(self.sites)])
        probs = log_probs.double().exp()
        return frame.assign(log_prob=log_probs.tolist(), prob=probs.tolist())

    def _repr_html_(self) -> str:
        sizes = " &times; ".join(map(str, self.shape))
        about = f"{sizes} fillings"
        if self.tables.log_mass < 0:
            share = percent_at_least(exp(self.tables.log_mass))
            about += f"; the candidates hold {share} of the product joint"
        heading = f"<p><b>{escape(self.name)}</b> joint over {about}</p>"
        return heading + self._frame(SHOWN).to_html(index=False)

    def __repr__(self) -> str:
        return f"Joint({self.name}, shape={self.shape})"


# ---- what rooms call: the methods of the same meaning, whose arguments rooms need not check ----


def most_probable(joint: Joint, n: int) -> tuple[Tensor, Tensor]:
    """The n most probable fillings, as `Joint.topk` has them; fewer if the block has fewer."""
    return joint._most_probable(n)


def conditional(joint: Joint, site: int, given: Sequence[int] | Sequence[str]) -> Distribution:
    """mu(x_site | the other sites have the tokens `given`), as `Joint.conditional` has it."""
    return joint._conditional(site, given)


def mutual_information(joint: Joint, site: int = 0, other: int = 1) -> float:
    """I(x_site; x_other) in nats, as `Joint.mutual_information` has it."""
    return joint._mutual_information(site, other)


def _log_sum_of_others(tile: Tensor, axis: int) -> Tensor:
    """log of the sums of exp(tile) over all axes but one."""
    others = tuple(t for t in range(tile.dim()) if t != axis)
    if not others:
        return tile  # logsumexp raises for an empty tuple of axes
    return tile.logsumexp(others)


def _entropy(probabilities: Tensor) -> float:
    """-sum p log p in nats: terms in the precision of the probabilities, their sum in float64."""
    return float(torch.special.entr(probabilities).sum(dtype=torch.float64))


def no_joint(name: str) -> InputError:
    """The error about a construction whose rule has no finite normaliser."""
    return InputError(
        f"{name} has no joint over these tables: the model rules out tokens that it multiplies or "
        f"divides by; use another construction, such as {SEARCHED}"
    )


def refuse_impossible_contexts(tables: Tables, what: str) -> None:
    """Raises if in some context no candidate is possible: `what` needs a distribution in each."""
    if tables.some_context_is_impossible:
        raise InputError(
            f"{what} cannot be computed over these tables: where some candidates stand together, "
            "the model rules out all those of another blank; give more candidates, or use "
            f"{SEARCHED}"
        )


def not_converged(joints: Iterable[Joint]) -> str:
    """A sentence that names the constructions which iterate and did not converge, with a bound.

    It is empty if all converged.
    """
    missed = {
        joint.name: joint.report for joint in joints if joint.report.get("converged") is False
    }
    if not missed:
        return ""
    bounds = [report["bound"] for report in missed.values() if "bound" in report]
    known_bounds = [bound for bound in bounds if isinstance(bound, float)]  # the others are None
    if len(known_bounds) < len(bounds):
        distance = " (how far they are from their limit is not known)"
    elif known_bounds:
        distance = f" (none is further than {percent_at_most(max(known_bounds))} from its limit)"
    else:  # no report speaks of a bound
        distance = ""
    names = ", ".join(missed)
    return (
        f"{names} did not converge, and the probabilities are approximate{distance}: "
        "use another construction, or fewer candidates"
    )
