"""Which rule over the two tables of a pair predicts the text best: P-PPL, U-PPL, A-KL and G-KL of many, paired.

    PYTHONPATH=src python bench/rules.py --data snli.txt xsum.txt [--pairs 100] [--model NAME] [--device cuda] [--rules A,B]
                                [--tokens N] [--out rows.parquet]

For every file two cells, contiguous and random pairs. Beside P-PPL stands the mean difference of log P-PPL from
`balanced` on the same pairs, with its standard error: a rule wins a cell where that is below zero by two of them or more.
`--tokens N` cuts the vocabulary to N tokens per blank (half the likeliest, half of the rest at random, and the gold one)
for a quick look on a CPU; its perplexities are given that the pair lies there.

Besides the constructions: members of the near-compatible family between the three named ones, and pools of two joints

    arithmetic   (mu + nu) / 2          geometric   proportional to (mu nu)^1/2

(log-loss of either is at most the mean of the two joints' losses, by Jensen's inequality; for the geometric pool it is
less by minus the log of the Bhattacharyya coefficient), and of the two halves of a member, A v and B u.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import exp, log, sqrt
from pathlib import Path

import pandas
import torch
from fixed_point import tokens_of
from torch import Tensor

from unmask.evaluation.datasets import read_texts
from unmask.evaluation.pairs import SCHEMES, choose_pairs
from unmask.joints.arnold_gokhale import members
from unmask.joints.chain import chain
from unmask.joints.hcb import hcb
from unmask.joints.joint import Joint
from unmask.joints.metrics import block_metrics
from unmask.joints.mrf import mrf
from unmask.joints.product import product
from unmask.joints.registry import Member
from unmask.joints.solver.marginals import Marginals
from unmask.joints.tiles import Index, at
from unmask.models.masked_lm import MaskedLM
from unmask.tables.unary import Tables, unary_tables

BASELINE = "balanced"
MEMBERS = {
    "arnold_gokhale": Member(0.0),
    "alpha 1/4": Member(0.25),
    BASELINE: Member(0.5),
    "alpha 3/4": Member(0.75),
    "pseudo_gibbs": Member(1.0),
}


def geometric(name: str, joints: Sequence[Joint], weights: Sequence[float] | None = None) -> Joint:
    """Proportional to the product of the joints' powers; equal weights unless given."""
    shares = weights or [1 / len(joints)] * len(joints)

    def rule(index: Index) -> Tensor:
        total = shares[0] * joints[0].rule(index)
        for share, joint in zip(shares[1:], joints[1:], strict=True):
            total += share * joint.rule(index)
        return total

    return Joint(name, joints[0].tables, rule)


def arithmetic(name: str, joints: Sequence[Joint]) -> Joint:
    """The mean of the joints."""

    def rule(index: Index) -> Tensor:
        total = joints[0].log_tile(index)
        for joint in joints[1:]:
            total = torch.logaddexp(total, joint.log_tile(index))
        return total

    return Joint(name, joints[0].tables, rule, known_log_z=log(len(joints)))


def halves(name: str, tables: Tables, joint: Joint) -> Joint:
    """Proportional to (A v B u)^1/2, u and v the marginals of a member."""
    u, v = (m.clamp_min(1e-37).log() for m in joint.marginals())
    marginals: Marginals = (v[None, :], u[:, None])

    def rule(index: Index) -> Tensor:
        terms = [at(table, index) + at(m, index) for table, m in zip(tables.log_q, marginals, strict=True)]
        return (terms[0] + terms[1]) / 2

    return Joint(name, tables, rule)


def rules(tables: Tables, chosen: set[str] | None) -> Iterator[Joint]:
    """The joints to compare."""
    family = {joint.name: joint for joint in members(tables, MEMBERS)}
    low, middle, high = family["arnold_gokhale"], family[BASELINE], family["pseudo_gibbs"]
    mean = chain(tables)
    made: dict[str, Callable[[], Joint]] = {
        "product": lambda: product(tables),
        "mrf": lambda: mrf(tables),
        "hcb": lambda: hcb(tables),
        "chain": lambda: mean,
        **{name: (lambda joint=joint: joint) for name, joint in family.items()},
        "arithmetic ag, pg": lambda: arithmetic("arithmetic ag, pg", [low, high]),
        "geometric ag, pg": lambda: geometric("geometric ag, pg", [low, high]),
        "geometric ag, pg, chain": lambda: geometric("geometric ag, pg, chain", [low, high, mean]),
        "geometric ag, chain": lambda: geometric("geometric ag, chain", [low, mean]),
        "geometric balanced, chain": lambda: geometric("geometric balanced, chain", [middle, mean]),
        "geometric pg, chain": lambda: geometric("geometric pg, chain", [high, mean]),
        "halves of ag twice, chain": lambda: geometric(
            "halves of ag twice, chain", [halves("", tables, low), mean], weights=[2 / 3, 1 / 3]
        ),
        "halves of ag": lambda: halves("halves of ag", tables, low),
        "halves of balanced": lambda: halves("halves of balanced", tables, middle),
        "halves of pg": lambda: halves("halves of pg", tables, high),
    }
    for name, make in made.items():
        if chosen is None or name in chosen or name == BASELINE:
            yield make()


@dataclass(frozen=True)
class Cell:
    """Pairs of one file, chosen one way."""

    name: str
    rows: pandas.DataFrame

    def table(self) -> str:
        """One line a rule, best first."""
        wide = self.rows.pivot(index="pair", columns="rule", values="pair_nll") / 2
        lines = []
        for rule, rows in self.rows.groupby("rule", sort=False):
            difference = wide[rule] - wide[BASELINE]
            error = float(difference.std(ddof=1)) / sqrt(len(difference)) if len(difference) > 1 else float("nan")
            lines.append(
                (
                    float(wide[rule].mean()),
                    f"| {rule} | {exp(wide[rule].mean()):.3f} | {difference.mean():+.4f} ± {error:.4f} | "
                    f"{exp(rows['unary_nll'].mean()):.3f} | {rows['a_kl'].mean():.4f} | {rows['g_kl'].mean():.4f} |",
                )
            )
        head = f"\n{self.name}, {len(wide)} pairs\n\n| rule | P-PPL | log P-PPL less balanced's | U-PPL | A-KL | G-KL |\n"
        return head + "| --- | --- | --- | --- | --- | --- |\n" + "\n".join(line for _, line in sorted(lines))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, nargs="+", required=True, help="files with a text a line")
    parser.add_argument("--pairs", type=int, default=100, help="of each cell")
    parser.add_argument("--model")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--max-tokens", type=int, default=64, help="longer texts are left out")
    parser.add_argument("--tokens", type=int)
    parser.add_argument("--rules", help="names to measure, with commas; all by default")
    parser.add_argument("--out", type=Path, help="a Parquet file for the rows")
    options = parser.parse_args()
    source = (options.model,) if options.model else ()
    model = MaskedLM.load(*source, device=options.device, dtype=options.dtype)
    chosen = set(options.rules.split(",")) if options.rules else None
    cells = []
    for path in options.data:
        for scheme in SCHEMES:
            rows = []
            found = choose_pairs(
                read_texts(str(path)),
                model.words.encode,
                model.special_ids,
                scheme,
                options.pairs,
                options.seed,
                options.max_tokens,
            )
            for number, pair in enumerate(found.pairs):
                cloze = pair.cloze(model.mask_id)
                tables = unary_tables(model, cloze, tokens_of(model, cloze, options.tokens) if options.tokens else None)
                for measured in block_metrics(list(rules(tables, chosen)), pair.gold).joints:
                    rows.append(
                        {
                            "cell": f"{path.stem} {scheme}",
                            "pair": number,
                            "rule": measured.construction,
                            "pair_nll": measured.joint_nll,
                            "unary_nll": sum(measured.unary_nll) / 2,
                            "a_kl": measured.a_kl,
                            "g_kl": measured.g_kl,
                        }
                    )
                del tables
            cells.append(Cell(f"{path.stem} {scheme}", pandas.DataFrame(rows)))
            print(cells[-1].table(), flush=True)
            if options.out:
                pandas.concat([cell.rows for cell in cells]).to_parquet(options.out)


if __name__ == "__main__":
    main()
