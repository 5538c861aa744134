"""Masked language models of a few tokens whose logits are hashed from the text: laws to
enumerate, of any shape.
"""

from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import numpy as np
import torch

from support.small_models import SPECIAL, random_bert, tokenizer_of
from unmask.models.masked_lm import MaskedLM

FEW = ("a", "b", "ab", ".", "##a", "##b", "##ba")
MANY = (*"abcdefgh", "ab", "cd", "abc", ".", "##a", "##b", "##ab", "##c", "##d", "##cd")


@dataclass(frozen=True)
class Law:
    """How logits are drawn.

    scale    their standard deviation: 0 is flat, 30 puts everything on one filling
    step     they are multiples of it, so that many tie (0: none do)
    twins    tokens 2i and 2i + 1 have the same logits, and what stands beside them does not
             tell them apart
    apart    the second of two twins has so much more
    ruled_out  share of tokens with a logit of -inf
    noise    logits of a pass are off by up to so much, by how many rows it has
    """

    seed: int = 0
    scale: float = 2.0
    step: float = 0.0
    twins: bool = False
    apart: float = 0.0
    ruled_out: float = 0.0
    noise: float = 0.0
    dtype: torch.dtype = torch.float64


class DrawnLM(MaskedLM):
    """A MaskedLM whose network is never run."""

    law = Law()

    def exact_logits(self, ids, positions):
        """The logits (n, p, V) of the law, in its dtype, without the noise of a pass."""
        law, offset = self.law, len(SPECIAL)
        kind = np.arange(self.vocab_size)
        if law.twins:
            kind = np.where(kind >= offset, offset + (kind - offset) // 2, kind)
        rows = kind[np.asarray(ids)].astype(np.uint64)
        with np.errstate(over="ignore"):
            key = np.full(len(rows), law.seed, dtype=np.uint64)
            for column in rows.T:
                key = _mixed(key * np.uint64(31) + column + np.uint64(1))
            key = _mixed(key[:, None] + np.asarray(positions, dtype=np.uint64) * np.uint64(1000003))
            bits = _mixed(key[:, :, None] + kind.astype(np.uint64) * np.uint64(7919))
        logits = law.scale * _normal(bits)
        if law.step:
            logits = np.round(logits / law.step) * law.step
        if law.twins:
            logits = logits + law.apart * ((np.arange(self.vocab_size) - offset) % 2)
        out = bits % np.uint64(1000) < law.ruled_out * 1000
        out[:, :, offset : offset + 2] = False
        return torch.from_numpy(np.where(out, -np.inf, logits)).to(law.dtype)

    def logits_at(self, ids, positions):
        logits = self.exact_logits(ids.numpy(), positions.numpy())
        if self.law.noise:
            key = np.arange(logits.numel(), dtype=np.uint64).reshape(logits.shape) + np.uint64(
                10**6 * len(ids)
            )
            logits = logits + self.law.noise * torch.from_numpy(_uniform(_mixed(key)) * 2 - 1).to(
                logits.dtype
            )
        return logits

    def substitutions(self, ids, vary, values, predict):
        rows = torch.tensor(ids).repeat(len(values), 1)
        rows[:, list(vary)] = values
        yield slice(0, len(rows)), self.logits(rows, torch.full((len(rows), 1), predict))[:, 0]


def drawn(pieces, law):
    """The model over `pieces`, with the logits of `law`."""
    model = _frame(pieces)
    model.law, model.dtype = law, law.dtype
    return model


@lru_cache
def _frame(pieces):
    tokenizer = tokenizer_of(pieces, model_max_length=24)
    return DrawnLM(random_bert(len(tokenizer), 24, seed=0, spread=0.02), tokenizer)


def every_filling(model, cloze, support):
    """{tokens: log p} of all fillings: the chain rule in a random order, followed through all
    partial fillings.
    """
    k, size = len(cloze.block), len(support)
    reached = {(): np.zeros([1] * k)}
    for _ in range(k):
        log_reach = {}
        for revealed, before in reached.items():
            hidden = [site for site in range(k) if site not in revealed]
            grid = list(product(range(size), repeat=len(revealed)))
            rows = np.tile(np.array(cloze.ids), (len(grid), 1))
            rows[:, [cloze.block[site] for site in revealed]] = np.array(support)[
                np.array(grid, dtype=int)
            ].reshape(len(grid), -1)
            places = np.tile(np.array([cloze.block[site] for site in hidden]), (len(grid), 1))
            logits = model.exact_logits(rows, places).double().numpy()[:, :, support]
            log_q = logits - np.logaddexp.reduce(logits, 2, keepdims=True)
            for column, site in enumerate(hidden):
                shape = [size if s in revealed or s == site else 1 for s in range(k)]
                moved = np.moveaxis(
                    log_q[:, column].reshape([size] * (len(revealed) + 1)),
                    -1,
                    sorted([*revealed, site]).index(site),
                )
                after = before + moved.reshape(shape) - np.log(len(hidden))
                key = tuple(sorted([*revealed, site]))
                log_reach[key] = (
                    after if key not in log_reach else np.logaddexp(log_reach[key], after)
                )
        reached = log_reach
    (log_p,) = reached.values()
    return {
        tuple(support[i] for i in index): float(value) for index, value in np.ndenumerate(log_p)
    }


def _mixed(key):
    """SplitMix64's finaliser."""
    with np.errstate(over="ignore"):
        key = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        key = (key ^ (key >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return key ^ (key >> np.uint64(31))


def _uniform(bits):
    return ((bits >> np.uint64(11)).astype(np.float64) + 0.5) / 2.0**53


def _normal(bits):
    """About normal: the logistic quantile, scaled to deviation 1."""
    u = _uniform(bits)
    return np.log(u / (1 - u)) * np.sqrt(3) / np.pi
