"""Exact transition matrices: a kernel's own `step`, run under every outcome of its random choices.

A kernel draws tokens (finitely many outcomes, whose probabilities it states) and compares
uniforms with thresholds (found by bisection, to rounding). Playing all of them from every text
of a small space gives

    K[x, y] = sum over outcomes that lead from x to y of their probability,

of the code that runs, not of a formula beside it. Then max |pi K - pi| is the proof that a
chain is right, for your own energy terms and kernels too.
"""

from __future__ import annotations

from itertools import permutations, product

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.sampling.engine.randomness import Randomness
from unmask.sampling.engine.token_draw import Categoricals, Drawn
from unmask.sampling.on_target import KernelOnTarget
from unmask.sampling.own_steps import BrokenLaw, kernel_step
from unmask.sampling.target import Target

CERTAIN = -200.0
"""log u of a uniform that lies below every threshold worth counting."""
HALVINGS = 52
"""Of the range of log u: thresholds are found to 200 / 2^52 = 4e-14."""
MOST_UNIFORMS = 8
"""Uniform numbers that one step may compare."""


def all_texts(target: Target) -> Int[Tensor, "N T"]:
    """Every text of the target's support, in the order of a counter whose last site runs
    fastest.
    """
    values = [allowed.nonzero().flatten().tolist() for allowed in target.support]
    fillings = torch.tensor(list(product(*values)), device=target.device)
    texts = target.template_ids.repeat(len(fillings), 1)
    texts[:, target.free_positions] = fillings
    return texts


def transition_matrix(kernel: KernelOnTarget, sites: Int[Tensor, " k"]) -> Float[Tensor, "N N"]:
    """The kernel's step at `sites`, for kernels that move to the proposed text or stay."""
    texts = all_texts(kernel.target)
    device = kernel.target.device
    state, _ = kernel.method.init(kernel, texts)
    texts = texts.cpu()
    where = {tuple(text): place for place, text in enumerate(texts.tolist())}
    starts: list[int] = list(range(len(texts)))
    scripts: list[list[int]] = [[] for _ in texts]

    def play(log_u: Float[Tensor, "r q"]) -> tuple[Int[Tensor, "r T"], ScriptedChoices]:
        rng = ScriptedChoices(scripts, log_u)
        after = state.take(torch.tensor(starts, device=device))
        kernel_step(kernel, after, rng, sites.to(device).expand(len(starts), -1))
        return after.ids.cpu(), rng

    while True:
        certain = torch.full((len(starts), MOST_UNIFORMS), CERTAIN, dtype=torch.float64)
        ends, rng = play(certain)
        if not rng.open:
            break
        grown = [
            (start, [*script, outcome])
            for row, (start, script) in enumerate(zip(starts, scripts, strict=True))
            for outcome in (rng.open.get(row, [None]))
        ]
        starts = [start for start, _ in grown]
        scripts = [[o for o in script if o is not None] for _, script in grown]
    origin = texts[torch.tensor(starts)]
    log_accept = torch.zeros(len(starts), dtype=torch.float64)
    for uniform in range(int(rng.uniforms.max())):
        concerned = (rng.uniforms > uniform) & (ends != origin).any(1)
        low, high = certain[:, uniform].clone(), torch.zeros(len(starts), dtype=torch.float64)
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            log_u = certain.clone()
            log_u[:, uniform] = middle
            moved = (play(log_u)[0] == ends).all(1)
            low, high = torch.where(moved, middle, low), torch.where(moved, high, middle)
        log_accept += torch.where(concerned, (low + high) / 2, 0.0)
    matrix = torch.zeros((len(texts), len(texts)), dtype=torch.float64)
    for start, end, path, accept in zip(
        starts, ends.tolist(), rng.log_prob.exp().tolist(), log_accept.exp().tolist(), strict=True
    ):
        if tuple(end) not in where:
            raise BrokenLaw(
                f"a step at the sites {sites.tolist()} leads from the text {texts[start].tolist()}"
                f" to {end}, which is not in the support of the target"
            )
        matrix[start, where[tuple(end)]] += path * accept
        matrix[start, start] += path * (1 - accept)
    return matrix


class ScriptedChoices(Randomness):
    """Plays given outcomes. Where a script ends, `open` has the outcomes that are possible next.

    log_prob   of the outcomes that were played, in each row
    uniforms   how many uniform numbers each row was given; they are `log_u`
    """

    def __init__(self, scripts: list[list[int]], log_u: Float[Tensor, "r q"]) -> None:
        longest = max(len(script) for script in scripts)
        self.sweep = self.step = self.calls = self.seed = 0  # of no stream
        self.scripts: Tensor = torch.tensor(
            [[*script, *[-1] * (longest + 1 - len(script))] for script in scripts]
        )
        self.log_u = log_u
        self.open: dict[int, list[int]] = {}
        self.log_prob: Tensor = torch.zeros(len(scripts), dtype=torch.float64)
        self.choices: Tensor = torch.zeros(len(scripts), dtype=torch.long)
        self.uniforms: Tensor = torch.zeros(len(scripts), dtype=torch.long)

    def categorical(
        self, rows: Int[Tensor, " m"], log_weights: Float[Tensor, "m V"]
    ) -> Int[Tensor, " m"]:
        device, rows = rows.device, rows.cpu()
        log_probs = log_weights.double().log_softmax(-1).cpu()
        depth = self.choices[rows].clamp(max=self.scripts.shape[1] - 1)
        outcome = self.scripts[rows, depth]
        for place in (outcome < 0).nonzero().flatten().tolist():
            self.open.setdefault(
                int(rows[place]), (log_probs[place] > -torch.inf).nonzero().flatten().tolist()
            )
        outcome = torch.where(outcome < 0, log_probs.argmax(-1), outcome)
        self.log_prob[rows] += log_probs[torch.arange(len(rows)), outcome]
        self.choices[rows] += 1
        return outcome.to(device)

    def tokens(
        self,
        rows: Int[Tensor, " m"],
        distributions: Categoricals,
        places: Int[Tensor, " m"] | None = None,
    ) -> Drawn:
        log_weights, chosen = distributions.log_weights(), torch.empty_like(rows)
        where = torch.zeros_like(rows) if places is None else places
        for place in where.unique().tolist():
            here = (where == place).nonzero().squeeze(1)
            chosen[here] = self.categorical(rows[here], log_weights[here])
        return distributions.at(chosen)

    def log_uniform(self, rows: Int[Tensor, " m"]) -> Float[Tensor, " m"]:
        device, rows = rows.device, rows.cpu()
        drawn = self.log_u[rows, self.uniforms[rows]]
        self.uniforms[rows] += 1
        return drawn.to(device)

    def permutation(self, rows: Int[Tensor, " m"], n: int) -> Int[Tensor, "m n"]:
        orders = torch.tensor(list(permutations(range(n))), device=rows.device)
        return orders[self.integers(rows, len(orders))]

    def integers(self, rows: Int[Tensor, " m"], n: int) -> Int[Tensor, " m"]:
        return self.categorical(
            rows, torch.zeros((len(rows), n), dtype=torch.float64, device=rows.device)
        )

    def uniform(self, rows: Int[Tensor, " m"], places: Int[Tensor, "#m p"]) -> Float[Tensor, "m p"]:
        """Refused: a number that is used in any way has too many outcomes to be played."""
        raise BrokenLaw(
            "a step asks for uniform numbers, whose outcomes cannot all be tried: use tokens,"
            " categorical, integers, permutation or log_uniform"
        )
