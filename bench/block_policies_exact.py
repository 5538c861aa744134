"""Which pairs to redraw at once, exactly, on four binary sites: 0-2 and 1-3 joined strongly, all others weakly.

    python bench/block_policies_exact.py [--strong 0.8 --weak 0.02]

One step redraws a pair chosen at random: any, neighbours (0-1, 1-2, 2-3), or by the dependence that `unmask sample` measures.
Printed are the spectral gap of the Metropolis-Hastings step with sequential and with product proposals (larger is faster),
and, for the parallel step that nobody corrects, the total variation between the law it settles on and the model's.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import combinations, permutations

import torch
from torch import Tensor

from unmask.lab.dynamics import parallel_step
from unmask.lab.mask_law import weighted_masks
from unmask.lab.model import table_model
from unmask.lab.spectrum import spectral_gap, stationary_law, total_variation
from unmask.models.tabular import TabularMLM
from unmask.sampling.dependence_blocks import DependenceBlocks, template_dependence
from unmask.sampling.engine.passes import Passes
from unmask.sampling.enumeration import target_law, transition_matrix
from unmask.sampling.kernels.block import ProductBlock
from unmask.sampling.kernels.kernel import Kernel
from unmask.sampling.kernels.sequential_block import SequentialBlock
from unmask.sampling.settings import BlockShape
from unmask.sampling.target import Target

STRONG = ((0, 2), (1, 3))
Pairs = Sequence[tuple[int, ...]]


def paired_joint(strong: float, weak: float) -> Tensor:
    """p(x) proportional to exp(sum of coupling x_a x_b), x_t = -1 or 1."""
    spins = torch.tensor([-1.0, 1.0], dtype=torch.float64)
    log_p = torch.zeros([2] * 4, dtype=torch.float64)
    for a, b in combinations(range(4), 2):
        first, second = (spins.reshape([-1 if t == s else 1 for t in range(4)]) for s in (a, b))
        log_p = log_p + (strong if (a, b) in STRONG else weak) * first * second
    return log_p.flatten().softmax(0).reshape([2] * 4)


def gap(kernel: Kernel, pairs: Pairs) -> float:
    """Of the step that draws one of `pairs`, and its order, uniformly."""
    orders = [order for pair in pairs for order in permutations(pair)]
    matrices = torch.stack([transition_matrix(kernel, torch.tensor(order)) for order in orders])
    return spectral_gap(matrices.mean(0).numpy(), target_law(kernel.target).numpy())


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strong", type=float, default=0.8)
    parser.add_argument("--weak", type=float, default=0.02)
    options = parser.parse_args()
    p = paired_joint(options.strong, options.weak)
    model = TabularMLM.from_joint(p)
    target = Target(model, [model.mask_id] * 4)
    measured = template_dependence(target, 2, "pseudo_gibbs").information
    policies: dict[str, Pairs] = {
        "any": list(combinations(range(4), 2)),
        "neighbours": [(0, 1), (1, 2), (2, 3)],
    }
    shapes: tuple[BlockShape, ...] = ("dependent", "independent")
    for shape in shapes:
        plan = DependenceBlocks(4, "random", 2, shape, measured)
        policies[shape] = [tuple(sorted(plan.partition([site])[0])) for site in range(4)]
    print(f"mutual information: {float(measured[0, 2]):.3f} nats of 0-2 and 1-3, {float(measured[0, 1]):.5f} of the others")
    print("| pairs | gap, sequential proposals | gap, product proposals | parallel, uncorrected: distance |")
    print("| --- | ---: | ---: | ---: |")
    lab = table_model(p.numpy())
    for name, pairs in policies.items():
        gaps = [gap(kernel(target, Passes(model)), pairs) for kernel in (SequentialBlock, ProductBlock)]
        weights: dict[Sequence[int], float] = {pair: float(list(pairs).count(pair)) for pair in pairs}
        law = stationary_law(parallel_step(lab, weighted_masks(lab.space, weights)))
        print(f"| {name} | {gaps[0]:.4f} | {gaps[1]:.4f} | {total_variation(law, lab.p):.4f} |")


if __name__ == "__main__":
    main()
