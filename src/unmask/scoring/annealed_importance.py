"""The score `log_prob`: log pi(x) = -E(x) - log Z, a probability over the texts of one length, within the bounds of log Z.

The texts are those of regular tokens; the norm energy is that of sampling, whose log q runs over the whole vocabulary.
Z depends on the length alone (and on the words around a target, which are held), so it is found once per length. Over all texts
of the length exp(log_prob) sums to 1 if log Z is right; an error of log Z moves all of them by the same amount, so differences
between texts of one length are exact.

log Z comes between two bounds from annealed importance sampling, forward and reverse.

    pi(x) = exp(-E(x)) / Z.   Path: f_b(x) = p0(x)^(1-b) exp(-b E(x)),   b from 0 to 1,   p0 the chain rule from left to right

p0 is normalised and can be drawn from, and it is close to pi. One Metropolis-Hastings step at one random site, which leaves
f_b invariant and is reversible, is made at each of n values of b. With d(x) = -E(x) - log p0(x) along the way,

    forward   from x ~ p0:   log w = sum_j (b_{j+1} - b_j) d(x_j),      E[w] = Z        so E[log w] <= log Z
    reverse   from x ~ pi:   log v = the same sum on the way back,      E[1/v] = 1/Z    so E[log v] >= log Z

(Neal 2001; Grosse, Ghahramani & Adams 2015). Of m runs, log mean w and -log mean 1/v are still bounds in expectation, and
tighter. Forward needs nothing else: a log w that is too large by c nats has probability below exp(-c). Reverse needs draws from
pi, which are available only if pi can be enumerated; otherwise they are forward runs, resampled by weight and moved on by
further sweeps, so the upper bound is as good as these have mixed. More steps bring the two together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log, prod
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.models.conditional_model import ConditionalModel
from unmask.runs.progress import Progress
from unmask.sampling.engine.passes import Passes
from unmask.sampling.engine.randomness import ChainStreams, Proposal, Randomness
from unmask.sampling.enumeration import MOST_TEXTS, all_texts
from unmask.sampling.kernels.kernel import ChainState
from unmask.sampling.kernels.metropolis import MetropolisHastings
from unmask.sampling.target import Energy, Target, energies
from unmask.scoring.batch import Scored, TextBatch
from unmask.scoring.registry import LogProb

STANDARD_ERRORS = 2.0
"""By how many of its standard errors each bound is moved outwards."""
SETTLING_SHARE = 4
"""The draws from pi that reverse runs start from have moved on for anneals / SETTLING_SHARE sweeps after resampling."""
DRAW, FORWARD, RESAMPLE, SETTLE, REVERSE = range(5)
"""Streams of random numbers."""


def score_log_prob(
    model: ConditionalModel, batch: TextBatch, scores: Sequence[LogProb], progress: Progress | None = None
) -> dict[str, Scored]:
    """The score `log_prob`; its normaliser is kept as long as the model lives."""
    (score,) = scores
    energy = energies(model, batch.ids, Energy(score.energy)).cpu()
    templates = batch.ids.scatter(1, batch.sites, model.mask_id).tolist()
    normalisers = [log_normaliser(model, tuple(template), score, progress) for template in templates]
    value, low, high = (
        -energy - torch.tensor([getattr(z, bound) for z in normalisers], dtype=torch.float64)
        for bound in ("log_z", "high", "low")
    )
    exact = torch.tensor([float(z.exact) for z in normalisers], dtype=torch.float64)
    return {score.name: Scored(value, extra={"low": low, "high": high, "exact": exact})}


@dataclass(frozen=True)
class LogNormaliser:
    """log Z and its bounds; all three are equal if it was enumerated."""

    log_z: float
    low: float
    high: float
    exact: bool


def log_normaliser(
    model: ConditionalModel, template: tuple[int, ...], score: LogProb, progress: Progress | None = None
) -> LogNormaliser:
    """log Z over the fillings of the template's blanks with regular tokens: enumerated if they are few, else annealed.

    It is computed once per model. `progress` counts annealing steps.
    """
    known = _KNOWN.setdefault(model, {})
    if (template, score) not in known:
        known[template, score] = _log_normaliser(model, template, score, progress)
    return known[template, score]


_KNOWN: WeakKeyDictionary[ConditionalModel, dict[tuple[tuple[int, ...], LogProb], LogNormaliser]] = WeakKeyDictionary()


def _log_normaliser(
    model: ConditionalModel, template: tuple[int, ...], score: LogProb, progress: Progress | None
) -> LogNormaliser:
    target = Target(model, template, Energy(score.energy))
    texts = prod(target.support.sum(1).tolist())
    if texts <= MOST_TEXTS:
        log_z = float((-energies(model, all_texts(target), Energy(score.energy))).logsumexp(0))
        return LogNormaliser(log_z, log_z, log_z, True)
    path = AnnealingPath(model, template, score, progress)
    ids, log_w = path.forward()
    log_v = path.reverse(path.settled(ids, log_w))
    lower, lower_error = log_mean(log_w)
    minus_upper, upper_error = log_mean(-log_v)
    low = min(lower, -minus_upper) - STANDARD_ERRORS * lower_error
    high = max(lower, -minus_upper) + STANDARD_ERRORS * upper_error
    return LogNormaliser((lower - minus_upper) / 2, low, high, False)


def log_mean(log_w: Float[Tensor, " m"]) -> tuple[float, float]:
    """(log of the mean weight, its standard error in nats)."""
    mean = float(log_w.logsumexp(0)) - log(len(log_w))
    share = (log_w - mean).exp()
    return mean, float(share.std()) / len(log_w) ** 0.5


class AnnealingPath:
    """m runs side by side over the blanks of one template, in `anneals` sweeps' worth of steps."""

    def __init__(
        self, model: ConditionalModel, template: Sequence[int], score: LogProb, progress: Progress | None = None
    ) -> None:
        self.passes = Passes(model)
        self.share = 1.0
        self.target = Target(model, template, Energy(score.energy, user_terms=(self._base_term,)))
        self.kernel = MetropolisHastings(self.target, self.passes)
        self.streams = ChainStreams(score.seed, range(score.chains))
        self.chains, self.steps = score.chains, score.anneals * self.target.sites
        self.settling = max(1, score.anneals // SETTLING_SHARE) * self.target.sites
        self.done, self.progress = 0, progress
        self._known: dict[tuple[int, ...], float] = {}

    def forward(self) -> tuple[Int[Tensor, "m T"], Float[Tensor, " m"]]:
        """The texts at the end, and log w of each run."""
        state = self._start(self._draw(self.streams.at(DRAW, 0)), 1 / self.steps)
        log_w = self._anneal(state, range(1, self.steps), FORWARD)
        return state.ids, log_w

    def reverse(self, ids: Int[Tensor, "m T"]) -> Float[Tensor, " m"]:
        """log v of each run, from draws of pi."""
        return self._anneal(self._start(ids, 1.0), range(self.steps - 1, 0, -1), REVERSE)

    def _anneal(self, state: ChainState, steps: range, stream: int) -> Float[Tensor, " m"]:
        """The sum of d(x) / n over the texts on the way, one step at each b = step / n."""
        log_w = self._drive(state) / self.steps
        for step in steps:
            self._step(state, step / self.steps, self.streams.at(stream, step))
            log_w += self._drive(state) / self.steps
        return log_w

    def settled(self, ids: Int[Tensor, "m T"], log_w: Float[Tensor, " m"]) -> Int[Tensor, "m T"]:
        """Texts that are nearly draws of pi: the runs, resampled by weight and moved on at b = 1."""
        rows = torch.arange(self.chains, device=ids.device)
        chosen = self.streams.at(RESAMPLE, 0).categorical(rows, log_w.expand(self.chains, -1))
        state = self._start(ids[chosen], 1.0)
        for step in range(self.settling):
            self._step(state, 1.0, self.streams.at(SETTLE, step))
        return state.ids

    def log_base(self, ids: Int[Tensor, "n T"]) -> Float[Tensor, " n"]:
        """log p0 of each text; one pass per site of each new text."""
        keys = [tuple(row) for row in ids[:, self.target.free_positions].tolist()]
        new = {key: place for place, key in enumerate(keys) if key not in self._known}
        if new:
            texts = ids[list(new.values())]
            for key, value in zip(new, self._chain_rule(texts).tolist(), strict=True):
                self._known[key] = value
        return torch.tensor([self._known[key] for key in keys], dtype=torch.float64, device=ids.device)

    def _base_term(self, ids: Int[Tensor, "n T"]) -> Float[Tensor, " n"]:
        """The term that makes the energy at temperature 1/b that of f_b: b (E + term) = b E - (1 - b) log p0."""
        if self.share == 1:
            return torch.zeros(len(ids), dtype=torch.float64, device=ids.device)
        return -(1 - self.share) / self.share * self.log_base(ids)

    def _start(self, ids: Int[Tensor, "m T"], share: float) -> ChainState:
        self.share = share
        state, _ = self.kernel.init(ids)
        return state

    def _step(self, state: ChainState, share: float, rng: Randomness) -> None:
        """One step that leaves f_b invariant, b = `share`."""
        self.done += 1
        if self.progress:
            self.progress(self.done, 2 * (self.steps - 1) + self.settling, "annealing steps")
        self.share = share
        state.temperature.fill_(1 / share)
        state.user = self.target.energy.from_user(state.ids)
        self.kernel.step(state, rng, rng.integers(state.rows, self.target.sites).unsqueeze(1))

    def _drive(self, state: ChainState) -> Float[Tensor, " m"]:
        """d(x) = -E(x) - log p0(x)."""
        return -state.terms.sum(1) - self.log_base(state.ids)

    def _draw(self, rng: Randomness) -> Int[Tensor, "m T"]:
        """Draws of p0."""
        ids = torch.tensor(self.target.template, device=self.target.device).repeat(self.chains, 1)
        rows = torch.arange(self.chains, device=ids.device)
        for site, position in enumerate(self.target.free_positions.tolist()):
            where = torch.full((self.chains, 1), position, device=ids.device)
            log_q = self._log_q(self.passes.logits(ids, where)[:, 0], torch.full_like(rows, site))
            ids[:, position] = rng.categorical(rows, log_q)
        return ids

    def _chain_rule(self, ids: Int[Tensor, "n T"]) -> Float[Tensor, " n"]:
        free, mask = self.target.free_positions, self.target.model.mask_id
        n, k = len(ids), len(free)
        rows = ids.repeat_interleave(k, 0).reshape(n, k, -1)
        later = torch.arange(k, device=ids.device).unsqueeze(1) <= torch.arange(k, device=ids.device)
        rows[:, :, free] = rows[:, :, free].masked_fill(later, mask)
        logits = self.passes.logits(rows.flatten(0, 1), free.repeat(n).unsqueeze(1))[:, 0]
        log_q = self._log_q(logits, torch.arange(k, device=ids.device).repeat(n))
        return log_q.gather(1, ids[:, free].flatten().unsqueeze(1)).reshape(n, k).sum(1)

    def _log_q(self, logits: Float[Tensor, "m V"], sites: Int[Tensor, " m"]) -> Float[Tensor, "m V"]:
        """The model's conditional over the regular tokens."""
        return Proposal().log_weights(logits, self.target.support[sites])
