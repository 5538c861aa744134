"""The exact joint of two blanks and all its metrics: `unmask` beside the published procedure
written plainly.

    python bench/pair_table.py [--text TEXT --pairs 10,11 3,4] [--threads 2] [--tokens 1024]
        [--json]

Both sides read the same float32 model, over its whole vocabulary of V tokens. The plain side
follows section 3 of Torroba Hennigen & Kim 2023: 2V texts in batches of 256, logits at all
positions, tables on the host, five joints of V x V numbers each (Arnold-Gokhale by 50 steps of
eq. 5 from uniform), metrics from the joints' conditionals. (It is leaner than the published
program, which keeps the conditionals of all five joints and adds two more divergences.)
`unmask` derives all eight constructions, the iterated ones to convergence. Each side runs in a
process of its own; memory is its peak resident set less that after loading the model. The
shared numbers (Arnold-Gokhale once more with 50 steps, outside the clock) must agree, or the
exit code is 1. `--tokens N` cuts the model's output to its first N tokens, on both sides, for a
quick look at the numbers; its ratio is not that of the whole vocabulary.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from math import exp, isclose
from typing import Any, TypeVar

import torch
from torch import Tensor
from transformers import AutoModelForMaskedLM

from unmask.common.cloze import Cloze
from unmask.joints.deriving import derive, derive_all
from unmask.joints.metrics import BlockMetrics, JointMetrics, block_metrics
from unmask.models.checkpoint_files import english_model_path
from unmask.models.conditional_model import ConditionalModel
from unmask.models.masked_lm import MaskedLM
from unmask.tables.unary import unary_tables

Result = TypeVar("Result")
Found = dict[str, Any]

TEXT = "The old man walked slowly along the river to look at the boats."
BATCH = 256
PUBLISHED_STEPS = 50
RELATIVE, ABSOLUTE = 1e-3, 5e-5
"""Agreement asked of two float32 procedures: a thousandth, or 5e-5 nats where the number is
near 0.
"""


class FirstTokens(ConditionalModel):
    """A model whose vocabulary is the first `tokens` tokens of another's."""

    def __init__(self, model: MaskedLM, tokens: int) -> None:
        self.model, self.vocab_size = model, tokens
        self.input_size = model.input_size  # the text and its blanks may have any token
        self.mask_id, self.special_ids = model.mask_id, model.special_ids
        self.device, self.dtype, self.max_length = model.device, model.dtype, model.max_length

    def logits_at(self, ids: Tensor, positions: Tensor) -> Tensor:
        """Those of the model, cut."""
        return self.model.logits_at(ids, positions)[..., : self.vocab_size]

    def substitutions(
        self, ids: Sequence[int], vary: Sequence[int], values: Tensor, predict: int
    ) -> Iterator[tuple[slice, Tensor]]:
        """Those of the model, cut."""
        for rows, logits in self.model.substitutions(ids, vary, values, predict):
            yield rows, logits[:, : self.vocab_size]


class Clock:
    """Wall and processor seconds of named parts."""

    def __init__(self) -> None:
        self.wall: dict[str, float] = {}
        self.cpu: dict[str, float] = {}

    def part(self, name: str, work: Callable[[], Result]) -> Result:
        """Run `work` on the clock."""
        wall, cpu = time.perf_counter(), time.process_time()
        result = work()
        self.wall[name] = self.wall.get(name, 0.0) + time.perf_counter() - wall
        self.cpu[name] = self.cpu.get(name, 0.0) + time.process_time() - cpu
        return result


def ours(
    model: MaskedLM, cloze: Cloze, tokens: int, clock: Clock
) -> tuple[BlockMetrics, Callable[[], BlockMetrics]]:
    """All constructions to convergence; and, for later, the published number of steps of
    Arnold-Gokhale.
    """
    tables = clock.part("tables", lambda: unary_tables(FirstTokens(model, tokens), cloze))
    joints = clock.part("joints", lambda: derive_all(tables))
    measured = clock.part("metrics", lambda: block_metrics(joints, cloze.gold))
    return measured, lambda: block_metrics(
        [derive(tables, "arnold_gokhale", steps=PUBLISHED_STEPS)], cloze.gold
    )


def plain(network: torch.nn.Module, cloze: Cloze, tokens: int, clock: Clock) -> BlockMetrics:
    """The published procedure: tables, then five dense joints, then their metrics."""
    logits_a, logits_b, log_m = clock.part("tables", lambda: plain_tables(network, cloze, tokens))
    log_a, log_b = clock.part("joints", lambda: (logits_a.log_softmax(0), logits_b.log_softmax(1)))
    joints = clock.part("joints", lambda: plain_joints(logits_a, logits_b, log_a, log_b, log_m))
    return clock.part("metrics", lambda: plain_metrics(joints, log_a, log_b, cloze.gold))


@torch.no_grad()
def plain_tables(
    network: torch.nn.Module, cloze: Cloze, tokens: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Logits [x, y] of the first blank given y and of the second given x, and log-probabilities
    with both masked.
    """
    first, second = cloze.block
    text = torch.tensor([cloze.ids])

    def predicted(position: int, varied: int) -> Tensor:
        batches = []
        for values in torch.arange(tokens).split(BATCH):
            rows = text.repeat(len(values), 1)
            rows[:, varied] = values
            batches.append(network(input_ids=rows).logits[:, position, :tokens].clone())
        return torch.cat(batches)

    masked = network(input_ids=text).logits[0, [first, second], :tokens]
    return predicted(first, second).T.contiguous(), predicted(second, first), masked.log_softmax(1)


def plain_joints(
    logits_a: Tensor, logits_b: Tensor, log_a: Tensor, log_b: Tensor, log_m: Tensor
) -> dict[str, Tensor]:
    """Log joints of V x V numbers each."""

    def normalised(cells: Tensor) -> Tensor:
        return cells.flatten().log_softmax(0).reshape(cells.shape)

    pivot = int(log_m[0].argmax())
    return {
        "product": log_m[0][:, None] + log_m[1][None, :],
        "mrf_logit": normalised(logits_a + logits_b),
        "mrf": normalised(log_a + log_b),
        "hcb": normalised(log_a - log_a[pivot] + log_b[pivot]),
        "arnold_gokhale": plain_arnold_gokhale(log_a, log_b).log(),
    }


def plain_arnold_gokhale(log_a: Tensor, log_b: Tensor) -> Tensor:
    """Eq. 5 on the whole joint, from uniform."""
    summed = log_a.exp() + log_b.exp()
    joint = torch.full_like(summed, 1 / summed.numel())
    for _ in range(PUBLISHED_STEPS):
        joint = summed / (1 / joint.sum(1, keepdim=True) + 1 / joint.sum(0, keepdim=True))
        joint = joint / joint.sum()
    return joint


def plain_metrics(
    joints: dict[str, Tensor], log_a: Tensor, log_b: Tensor, gold: Sequence[int]
) -> BlockMetrics:
    """Section 3 from each joint's two conditionals."""
    x, y = gold
    measured = []
    for name, joint in joints.items():
        own_a, own_b = (
            joint - joint.logsumexp(0, keepdim=True),
            joint - joint.logsumexp(1, keepdim=True),
        )
        kl_a = (log_a.exp() * (log_a - own_a)).sum(0)
        kl_b = (log_b.exp() * (log_b - own_b)).sum(1)
        unary = (log_a, log_b) if name == "product" else (own_a, own_b)
        measured.append(
            JointMetrics(
                construction=name,
                unary_nll=tuple(-float(table[x, y]) for table in unary),
                joint_nll=-float(joint[x, y]),
                a_kl=float(kl_a.mean() + kl_b.mean()) / 2,
                g_kl=float(kl_a[y] + kl_b[x]) / 2,
                objective=float(kl_a.sum() + kl_b.sum()),
            )
        )
    # No probability is 0, so the best fit of log-ratios by rows and columns is that of their means.
    ratio = log_a - log_b
    gap = ratio - ratio.mean(0, keepdim=True) - ratio.mean(1, keepdim=True) + ratio.mean()
    return BlockMetrics(tuple(measured), float(gap.square().mean().sqrt()))


def peak_bytes() -> int:
    """The largest resident set of this process so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def run_side(options: argparse.Namespace) -> Found:
    """One side in this process: seconds of its parts, memory, and the metrics of every pair."""
    torch.set_num_threads(options.threads)
    model = MaskedLM.load(device="cpu", dtype="float32")
    tokens = options.tokens or model.vocab_size
    clozes = [model.cloze(options.text, positions=pair) for pair in options.pairs]
    largest = max(max(cloze.gold) for cloze in clozes)
    if largest >= tokens:
        sys.exit(
            f"--tokens {tokens} leaves out a token of the text at --pairs: give at least"
            f" {largest + 1}"
        )
    network = AutoModelForMaskedLM.from_pretrained(english_model_path(), dtype=torch.float32).eval()
    loaded, clock, found = peak_bytes(), Clock(), []
    for cloze in clozes:
        if options.side == "ours":
            measured, published = ours(model, cloze, tokens, clock)
            peak = peak_bytes()
            found.append({"metrics": asdict(measured), "published_steps": asdict(published())})
        else:
            found.append({"metrics": asdict(plain(network, cloze, tokens, clock))})
            peak = peak_bytes()
    words = [[model.token(t) for t in cloze.gold] for cloze in clozes]
    return {
        "seconds": clock.wall,
        "cpu_seconds": clock.cpu,
        "bytes": peak - loaded,
        "vocabulary": tokens,
        "text_tokens": len(clozes[0].ids),
        "gold": words,
        "pairs": found,
    }


def disagreements(mine: Found, theirs: Found) -> list[str]:
    """Every shared number of one pair that differs by more than rounding explains."""
    own = {m["construction"]: m for m in mine["metrics"]["joints"]}
    own["arnold_gokhale"] = mine["published_steps"]["joints"][0]
    pairs = [
        (
            "incompatibility",
            mine["metrics"]["incompatibility"],
            theirs["metrics"]["incompatibility"],
        )
    ]
    for row in theirs["metrics"]["joints"]:
        same = own[row["construction"]]
        pairs += [
            (f"{row['construction']} {key}", same[key], row[key])
            for key in ("joint_nll", "a_kl", "g_kl", "objective")
        ]
        for t, values in enumerate(zip(same["unary_nll"], row["unary_nll"], strict=True)):
            pairs.append((f"{row['construction']} unary_nll_{t + 1}", *values))
    return [
        f"{name}: {a:.6g} and {b:.6g}"
        for name, a, b in pairs
        if not isclose(a, b, rel_tol=RELATIVE, abs_tol=ABSOLUTE)
    ]


def in_own_process(side: str, options: argparse.Namespace) -> Found:
    """`run_side` in a fresh interpreter."""
    command = [
        sys.executable,
        __file__,
        "--side",
        side,
        "--text",
        options.text,
        "--threads",
        str(options.threads),
    ]
    command += [
        "--tokens",
        str(options.tokens),
        "--pairs",
        *[",".join(map(str, pair)) for pair in options.pairs],
    ]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(done.returncode)  # the side has said why
    found: Found = json.loads(done.stdout)
    return found


def show(mine: Found, theirs: Found, problems: list[str]) -> None:
    """The small table."""
    count = len(mine["pairs"])
    print(
        f"{count} pair(s) {mine['gold']}, text of {mine['text_tokens']} tokens, vocabulary"
        f" {mine['vocabulary']}; seconds per pair"
    )
    print(f"{'':16}{'tables':>9}{'joints':>9}{'metrics':>9}{'all':>9}{'cpu':>9}{'memory':>10}")
    for name, side in (("unmask, 8 joints", mine), ("plain, 5 joints", theirs)):
        parts = [side["seconds"][part] / count for part in ("tables", "joints", "metrics")]
        cells = "".join(
            f"{value:9.2f}"
            for value in (*parts, sum(parts), sum(side["cpu_seconds"].values()) / count)
        )
        print(f"{name:16}{cells}{side['bytes'] / 1e6:7.0f} MB")
    of = ratios(mine, theirs)
    print(
        f"ratio: {of['time']:.2f} times faster ({of['cpu_time']:.2f} in processor time),"
        f" {of['memory']:.2f} times less memory"
    )
    print(f"\n{'construction':16}{'U-PPL':>9}{'P-PPL':>9}{'A-KL':>9}{'G-KL':>9}   (first pair)")
    first = mine["pairs"][0]
    rows = [(m["construction"], m) for m in first["metrics"]["joints"]]
    rows.append(("ag, 50 steps", first["published_steps"]["joints"][0]))
    for name, m in rows:
        u_ppl, p_ppl = exp(sum(m["unary_nll"]) / 2), exp(m["joint_nll"] / 2)
        print(f"{name:16}{u_ppl:9.3f}{p_ppl:9.3f}{m['a_kl']:9.4f}{m['g_kl']:9.4f}")
    print("same numbers on both sides" if not problems else "DIFFERENT:\n" + "\n".join(problems))


def ratios(mine: Found, theirs: Found) -> dict[str, float]:
    """How many times more the plain side took."""
    return {
        "time": sum(theirs["seconds"].values()) / sum(mine["seconds"].values()),
        "cpu_time": sum(theirs["cpu_seconds"].values()) / sum(mine["cpu_seconds"].values()),
        "memory": theirs["bytes"] / mine["bytes"],
    }


def main() -> int:
    """Parse, run both sides one after the other, compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--text", default=TEXT)
    parser.add_argument(
        "--pairs",
        nargs="+",
        default=[(10, 11)],
        type=lambda pair: tuple(int(p) for p in pair.split(",")),
    )
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument(
        "--tokens", type=int, default=0, help="only the first N tokens of the vocabulary"
    )
    parser.add_argument("--json", action="store_true", help="print everything measured as JSON")
    parser.add_argument("--side", choices=["ours", "plain"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        json.dump(run_side(options), sys.stdout)
        return 0
    mine, theirs = in_own_process("ours", options), in_own_process("plain", options)
    problems = [
        p for pair in zip(mine["pairs"], theirs["pairs"], strict=True) for p in disagreements(*pair)
    ]
    if options.json:
        found = {
            "unmask": mine,
            "plain": theirs,
            "ratio": ratios(mine, theirs),
            "disagreements": problems,
        }
        print(json.dumps(found, indent=1))
    else:
        show(mine, theirs, problems)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
