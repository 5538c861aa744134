"""The lattice of revealed sets: a text's probability by the chain rule, over all orders of its sites at once.

For sites 1..k and a text x, q(x_i | x_S) is the model's probability of x_i with the sites of S revealed and all others
masked. An order o of the sites gives the probability p_o(x) = prod_t q(x_{o_t} | x_{o_<t}). Their mean over all k! orders,

    p(x) = G(all),   G(S) = 1/|S| sum_{i in S} G(S - i) q(x_i | x_{S - i}),   G(empty) = 1,

is a probability over the V^k texts too, exact in 2^k - 1 passes. The same recursion with the mean of logarithms gives the
mean of log p_o, a lower bound of log p; with the largest or smallest term, the best and worst order, which look at hidden
values and so are not probabilities. Beyond MOST_SITES orders are sampled: the mean of p_o over sampled orders is unbiased.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import islice
from math import exp, fsum, log

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unmask.errors import InputError
from unmask.models.conditional_model import ConditionalModel
from unmask.tables.revealing import Conditionals

MOST_SITES = 16
"""65,535 passes, and 8 MiB of numbers, per text."""
PASS = {torch.float64: 2.0**-42, torch.float32: 2.0**-13, torch.float16: 2.0**-6, torch.bfloat16: 2.0**-3}
"""d, in nats, by the format in which the network computes."""


@dataclass(frozen=True)
class Lattice:
    """log_q[n, S, i] = log q(x_i | x_S) of text n, the set S being a bit mask over the k sites; nan where i is in S.

    lost   how many nats lower each is where q runs over the whole vocabulary and not over the support
    """

    log_q: Float[Tensor, "n sets k"]
    lost: Float[Tensor, "n sets k"] | None = None

    @property
    def whole(self) -> Lattice:
        """The lattice of q over the whole vocabulary."""
        return self if self.lost is None else Lattice(self.log_q - self.lost)

    @property
    def sites(self) -> int:
        return self.log_q.shape[2]

    @cached_property
    def log_mean(self) -> Float[Tensor, " n"]:
        """log p(x), the mean over all orders: a probability over all texts."""
        return self._recursion(lambda terms: terms.logsumexp(2) - log(terms.shape[2]))[:, -1]

    @property
    def mean_log(self) -> Float[Tensor, " n"]:
        """The mean of log p_o(x) over all orders, at most log p(x)."""
        return self._recursion(lambda terms: terms.mean(2))[:, -1]

    def best(self) -> tuple[Float[Tensor, " n"], Int[Tensor, "n k"]]:
        """The largest log p_o(x), and its order. Not a probability: which order is best depends on hidden values."""
        return self._extreme(lambda terms: terms.amax(2), lambda terms: terms.argmax(1))

    def worst(self) -> tuple[Float[Tensor, " n"], Int[Tensor, "n k"]]:
        """The smallest log p_o(x), and its order."""
        return self._extreme(lambda terms: terms.amin(2), lambda terms: terms.argmin(1))

    def along(self, orders: Int[Tensor, "m k"]) -> Float[Tensor, "n m"]:
        """log p_o(x) of each text in each order; an order lists the sites by their index 0..k-1."""
        orders = orders.to(self.log_q.device)
        bits = 1 << orders
        return self.log_q[:, bits.cumsum(1) - bits, orders].sum(2)

    def _recursion(self, combine: Callable[[Tensor], Tensor]) -> Tensor:
        """value(S) = combine over i in S of value(S - i) + log q(x_i | x_{S - i}), from value(empty) = 0 upwards."""
        value = self.log_q.new_zeros(self.log_q.shape[:2])
        for sets, inside, _ in islice(_levels(self.sites, self.log_q.device), 1, None):
            before = sets[:, None] - (1 << inside)
            value[:, sets] = combine(value[:, before] + self.log_q[:, before, inside])
        return value

    def _extreme(self, combine: Callable[[Tensor], Tensor], choose: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
        value = self._recursion(combine)
        texts = torch.arange(len(value), device=value.device)
        revealed = torch.full_like(texts, value.shape[1] - 1)
        order = torch.empty((len(value), self.sites), dtype=torch.long, device=value.device)
        members = revealed_sets(self.sites, value.device)
        for step in reversed(range(self.sites)):
            inside = members[revealed].nonzero()[:, 1].reshape(len(value), step + 1)
            before = revealed[:, None] - (1 << inside)
            terms = value[texts[:, None], before] + self.log_q[texts[:, None], before, inside]
            order[:, step] = inside[texts, choose(terms)]
            revealed = revealed - (1 << order[:, step])
        return value[:, -1], order


def lattice(conditionals: Conditionals, texts: Int[Tensor, "n T"], sites: Int[Tensor, "n k"]) -> Lattice:
    """The lattice of each text: (2^k - 1) passes per text, fewer where texts reveal the same tokens.

    A row of `texts` holds the ids of a whole text, and the same row of `sites` its k free positions. The fillings of one
    text are the rows of one call, so that they share passes: all of them, for example, that with every site masked.
    """
    texts, sites = _prepared(conditionals.model, texts, sites)
    n, k = sites.shape
    if k > MOST_SITES:
        raise InputError(f"{k} sites have {2**k:,} revealed sets, over the limit of {MOST_SITES} sites: sample orders instead")
    blank = texts.scatter(1, sites, conditionals.model.mask_id)
    distinct = n == 1 or len(blank.unique(dim=0)) == n
    log_q, lost = torch.full((2, n, 2**k, k), torch.nan, dtype=torch.float64, device=texts.device)
    for sets, _, hidden in islice(_levels(k, texts.device), k):
        positions = sites[:, hidden]
        targets = texts[:, None].expand(-1, len(sets), -1).gather(2, positions)
        rows = texts[:, None].repeat(1, len(sets), 1).scatter_(2, positions, conditionals.model.mask_id)
        known = conditionals.log_q_and_lost(rows.flatten(0, 1), positions.flatten(0, 1), targets.flatten(0, 1), distinct)
        for part, values in zip((log_q, lost), known, strict=True):
            part[:, sets[:, None], hidden] = values.reshape(positions.shape)
    return Lattice(log_q, lost)


def along_orders(
    conditionals: Conditionals, texts: Int[Tensor, "n T"], sites: Int[Tensor, "n k"], orders: Int[Tensor, "n m k"]
) -> Float[Tensor, "n m"]:
    """log p_o(x) of text n in each of its m orders (site indices 0..k-1): at most m k passes per text, for any k."""
    return along_orders_and_lost(conditionals, texts, sites, orders)[0]


def along_orders_and_lost(
    conditionals: Conditionals, texts: Int[Tensor, "n T"], sites: Int[Tensor, "n k"], orders: Int[Tensor, "n m k"]
) -> Float[Tensor, "2 n m"]:
    """The same, and how many nats lower each is where q runs over the whole vocabulary and not over the support."""
    texts, sites = _prepared(conditionals.model, texts, sites)
    n, m, k = orders.shape
    if (n, k) != tuple(sites.shape) or bool((orders.sort(2).values != torch.arange(k, device=orders.device)).any()):
        raise InputError(f"orders of shape {tuple(orders.shape)} do not order the {sites.shape[1]} sites of {len(sites)} texts")
    places = sites[:, None].expand(-1, m, -1).gather(2, orders.to(texts.device)).flatten(0, 1)
    filled = texts.repeat_interleave(m, 0)
    rows = filled.scatter(1, places, conditionals.model.mask_id)
    total = torch.zeros((2, n * m), dtype=torch.float64, device=texts.device)
    for step in range(k):
        place = places[:, step : step + 1]
        value = filled.gather(1, place)
        total += torch.stack(conditionals.log_q_and_lost(rows, place, value))[:, :, 0]
        rows = rows.scatter(1, place, value)
    return total.reshape(2, n, m)


def random_orders(texts: int, orders: int, sites: int, generator: torch.Generator) -> Int[Tensor, "texts orders sites"]:
    """Orders drawn independently and uniformly."""
    return torch.rand((texts, orders, sites), generator=generator, dtype=torch.float64).argsort(2)


def log_mean_of_sampled(log_probs: Float[Tensor, "n m"]) -> tuple[Float[Tensor, " n"], Float[Tensor, " n"]]:
    """(log of the mean of p_o over m sampled orders, its standard error in nats).

    The mean is unbiased for p(x); its logarithm lies below log p(x) on average, by about half the squared error. To first
    order the error of a logarithm is the relative error of what it is taken of. It is nan for a single order.
    """
    m = log_probs.shape[1]
    total = log_probs.logsumexp(1)
    share = (log_probs - total[:, None]).exp().nan_to_num(nan=1 / m)
    spread = share.std(1) if m > 1 else torch.full_like(total, torch.nan)
    return total - log(m), spread * m**0.5


def _prepared(model: ConditionalModel, texts: Tensor, sites: Tensor) -> tuple[Tensor, Tensor]:
    """Both on the model's device; refuses texts with a mask at a site, sites outside the text, and sites named twice."""
    texts, sites, length = texts.to(model.device), sites.to(model.device), texts.shape[1]
    if bool(((sites < 0) | (sites >= length)).any()):
        raise InputError(f"sites {sites.unique().tolist()} do not all lie in a text of {length} tokens, numbered from 0")
    in_order = sites.sort(1).values
    if bool((in_order[:, 1:] == in_order[:, :-1]).any()):
        raise InputError("a text's sites name a position twice: name each position once")
    if bool((texts.gather(1, sites) == model.mask_id).any()):
        raise InputError("a text has the mask token at a site: give the token that fills it")
    return texts, sites


@lru_cache(maxsize=64)
def revealed_sets(k: int, device: torch.device | None = None) -> Bool[Tensor, "sets k"]:
    """Whether set S, a bit mask, holds site i."""
    return ((torch.arange(2**k, device=device)[:, None] >> torch.arange(k, device=device)) & 1).bool()


def _levels(k: int, device: torch.device) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """For sizes s = 0..k: the c sets of that size, and for each the sites (c, s) in it and those (c, k - s) hidden from it."""
    members = revealed_sets(k, device)
    sizes = members.sum(1)
    for size in range(k + 1):
        sets = (sizes == size).nonzero().flatten()
        inside, hidden = (
            part.nonzero()[:, 1].reshape(len(sets), n) for part, n in ((members[sets], size), (~members[sets], k - size))
        )
        yield sets, inside, hidden


@dataclass(frozen=True)
class Rounding:
    """How far a computed log-probability may be from the model's, and bounds that hold whatever the rounding was.

    A conditional is a pass of the network and a log-softmax. With d the error of a pass in nats and u that of the number kept,

        | log q^ - log q |  <=  d + u |log q|        for every conditional q of the model, q^ as computed.

    An order o of k blanks multiplies k of them, so p_o lies between e^(-kd) p^_o^(1+u) and e^(kd) p^_o^(1-u). p is the mean of
    p_o over the orders, or comes from products by means and maxima (the bound on other fillings). x -> x^(1+u) is convex and
    x -> x^(1-u) concave, both rise, and maxima pass through them, so Jensen's inequality gives the same for the result:

        (1 + u) log p^ - k d   <=   log p   <=   (1 - u) log p^ + k d.

    Sums over fillings are sums of these ends. The order of two fillings is certain if their intervals do not meet; the mass that
    is left is 1 minus the sum of lower ends, and is 0 only if nothing is left. Double precision, in which p is formed from the
    q, adds less than 1e-14 and is far below d.

    No theorem gives d. Passes of one text in batches of other sizes differ by at most 4e-5 nats in the bundled model and 3e-5 in
    another, in float32; d is three times as much or more, and in other formats as much more as their digits are fewer.

    factor     d of each of the factors
    relative   u
    fixed      an error in nats that every probability has besides: of its weight, for example
    """

    factor: float
    relative: float
    fixed: float = 0.0

    @classmethod
    def of(cls, dtype: torch.dtype, fixed_factors: int = 0) -> Rounding:
        """The rounding of a model; `fixed_factors` more conditionals are factors of every probability."""
        factor = PASS.get(dtype, PASS[torch.bfloat16])
        kept = torch.finfo(torch.promote_types(dtype, torch.float32)).eps
        return cls(factor, kept, 2 * fixed_factors * factor)

    def low(self, log_prob: float, factors: int) -> float:
        """No more than the logarithm of the probability itself."""
        return log_prob - self._error(log_prob, factors)

    def high(self, log_prob: float, factors: int) -> float:
        """No less than it, and never above 0."""
        return min(0.0, log_prob + self._error(log_prob, factors))

    def _error(self, log_prob: float, factors: int) -> float:
        return 0.0 if log_prob == float("-inf") else self.relative * abs(log_prob) + factors * self.factor + self.fixed


def log_sum(log_probs: Iterable[float]) -> float:
    """log of the sum of probabilities."""
    known = list(log_probs)
    largest = max(known, default=float("-inf"))
    return largest if largest == float("-inf") else largest + log(fsum(exp(value - largest) for value in known))
