"""Samplers at equal cost: energy, an independent judge, and repetition, after equal numbers of forward passes.

    python bench/sampler_quality.py --judge-text corpus.txt [--length 12 --chains 32 --passes 800 --device cpu]
    python bench/sampler_quality.py --judge NAME_OF_A_CAUSAL_MODEL ...

Every sampler starts from the same texts (ancestral samples in a random order, or sentences of `--starts FILE`) and runs until
each chain has spent its passes; the table shows the texts after a quarter, a half and all of them. The judge is a causal
language model that shares nothing with the sampler but, at most, its training text: a Kneser-Ney model of four tokens
trained here on `--judge-text` with the sampler's tokenizer, or any causal model by name. Its score is nats per token over the
text and its end, lower is better. Energies are E_norm of the text over its tokens, scored outside the budget. `change` is the
mean difference to the chain's own start, with its standard error over the chains. `changed` is the share of redrawn tokens
that changed (novelty), `accepted` that of steps, `moves` the changes so far, `own` the share of tokens that are still the
start's: a text that has hardly moved is judged like its start.
"""

from __future__ import annotations

import argparse
import lzma
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from ngram_judge import KneserNey, check
from numpy.typing import NDArray
from torch import Tensor

from unmask.models.masked_lm import MaskedLM
from unmask.sampling.decoders.ancestral import Ancestral
from unmask.sampling.decoders.decoder import decode
from unmask.sampling.energy import Energy
from unmask.sampling.engine.passes import Passes
from unmask.sampling.engine.randomness import ChainStreams
from unmask.sampling.kernels.block import ProductBlock, SequentialBlock
from unmask.sampling.kernels.gibbs import PseudoGibbs
from unmask.sampling.kernels.kernel import ChainState, Kernel, SweepPlan
from unmask.sampling.kernels.metropolis import MetropolisHastings
from unmask.sampling.kernels.pair_joint import PairJoint
from unmask.sampling.run.judge import CausalJudge
from unmask.sampling.run.text_statistics import distinct, self_bleu, stutter_rate
from unmask.sampling.target import Target, blank_template

Judge = Callable[[list[str]], NDArray[np.float64]]


class TrainedJudge:
    """A Kneser-Ney model over the sampler's tokens, trained on the first `megabytes` of a text file."""

    def __init__(self, path: Path, model: MaskedLM, megabytes: int) -> None:
        lines = list(read_lines(path, megabytes * 10**6))
        held_out, lines = lines[:500], lines[500:]
        ids = np.fromiter((i for part in _tokenised(lines, model) for i in part), dtype=np.int64)
        self.encode = model.words.encode
        self.model = KneserNey(ids, model.vocab_size)
        off = check(self.model, [self.encode(line)[:4] for line in held_out[:3]])
        print(f"judge: Kneser-Ney of order {self.model.order}, {len(ids):,} tokens; distributions sum to 1 within {off:.0e}; "
              f"{self(held_out).mean():.3f} nats per token on 500 held-out lines", flush=True)  # fmt: skip
        print(describe(self, held_out), flush=True)

    def __call__(self, texts: list[str]) -> NDArray[np.float64]:
        """Nats per token of each text, its end included."""
        return np.array([-self.model.log_probs(self.encode(text)).mean() for text in texts])


def describe(judge: Judge, lines: list[str]) -> str:
    """How often the judge prefers a line to the same line with one word of another line in it, or two neighbours swapped."""
    rng = np.random.default_rng(0)
    words = [line.split() for line in lines if 5 <= len(line.split()) <= 25]
    pool = [word for line in words for word in line]
    replaced, swapped = [], []
    for line in words:
        place, drawn = int(rng.integers(len(line) - 1)), pool[int(rng.integers(len(pool)))]
        replaced.append(" ".join([*line[:place], drawn, *line[place + 1 :]]))
        swapped.append(" ".join([*line[:place], line[place + 1], line[place], *line[place + 2 :]]))
    own = [" ".join(line) for line in words]
    score = judge(own)
    shares = []
    for others in (replaced, swapped):
        different = np.array([a != b for a, b in zip(own, others, strict=True)])
        shares.append(float((judge(others) > score)[different].mean()))
    return (
        f"judge: prefers a line to itself with one word replaced by another line's in {shares[0]:.1%} of {len(own)} cases, "
        f"with two neighbouring words swapped in {shares[1]:.1%}"
    )


def read_lines(path: Path, characters: int = 10**12) -> Iterator[str]:
    """Lines of a text file, compressed by xz or not, up to so many characters."""
    with lzma.open(path, "rt", encoding="utf-8") if path.suffix == ".xz" else path.open(encoding="utf-8") as stream:
        for line in stream:
            characters -= len(line)
            if characters < 0:
                return
            if line.strip():
                yield line.strip()


def _tokenised(lines: list[str], model: MaskedLM) -> Iterator[list[int]]:
    for start in range(0, len(lines), 1000):
        yield from model.tokenizer(lines[start : start + 1000], verbose=False)["input_ids"]


def samplers(model: MaskedLM, template: tuple[int, ...], passes: Passes) -> dict[str, tuple[Kernel, int]]:
    """Name, kernel and block size of every row of the table."""
    norm, raw = (Target(model, template, Energy(kind)) for kind in ("norm", "raw"))
    return {
        "always accept": (PseudoGibbs(norm, passes), 1),
        "MH raw": (MetropolisHastings(raw, passes), 1),
        "MH norm": (MetropolisHastings(norm, passes), 1),
        "MH norm, delayed": (MetropolisHastings(norm, passes, delayed=(1, 3)), 1),
        "block 2, product": (ProductBlock(norm, passes), 2),
        "block 2, sequential": (SequentialBlock(norm, passes), 2),
        "block 2, pair joint": (PairJoint(norm, passes, candidates=8), 2),
        "block 3, product": (ProductBlock(norm, passes), 3),
        "block 3, sequential": (SequentialBlock(norm, passes), 3),
    }


def run(
    kernel: Kernel, block: int, starts: Tensor, shares: list[float], budget: int, seed: int
) -> Iterator[tuple[float, Tensor, dict[str, float]]]:
    """Texts and rates when the chains' mean number of passes reaches each share of the budget; starts are free of charge."""
    state, _ = kernel.init(starts)
    n, plan = len(starts), SweepPlan(kernel.target.sites, block_size=block)
    streams, spent, sweep = ChainStreams(seed, range(n)), 0.0, 0
    steps = accepted = redrawn = changed = 0
    waiting = list(shares)
    while waiting:
        sweep += 1
        sites = plan.draw(streams.at(sweep, 0), state.rows)
        for number in range(plan.steps):
            info = kernel.step(state, streams.at(sweep, number + 1), sites[number])
            spent += float(info.passes.sum()) / n
            steps, accepted = steps + n, accepted + int(info.accepted.sum())
            redrawn, changed = redrawn + info.changed.numel(), changed + int(info.changed.sum())
            while waiting and spent >= waiting[0] * budget:
                rates = {"sweeps": sweep, "accepted": accepted / steps, "changed": changed / redrawn, "moves": changed / n}
                yield waiting.pop(0), state.ids.clone(), rates


def with_change(values: NDArray[np.float64], before: NDArray[np.float64]) -> str:
    """Mean, and mean difference to the same chains' starts with its standard error."""
    change = values - before
    return f"{values.mean():6.2f} {change.mean():+6.2f} +- {change.std(ddof=1) / len(change) ** 0.5:.2f}"


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("length", 12), ("chains", 32), ("passes", 800), ("megabytes", 40), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--judge-text", type=Path, help="train the judge on this file, one text per line (.xz is read too)")
    parser.add_argument("--judge", help="a causal model by name or folder, instead")
    parser.add_argument(
        "--starts", type=Path, help="start from its sentences of --length tokens (a capital first, a full stop last)"
    )
    parser.add_argument("--model")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", help="rows whose name contains one of these, separated by semicolons")
    options = parser.parse_args()
    if not (options.judge or options.judge_text):
        parser.error("give a judge: --judge-text FILE to train one, or --judge NAME of a causal model")
    model = MaskedLM.load(options.model, device=options.device)
    judge = (
        CausalJudge(options.judge, options.device)
        if options.judge
        else TrainedJudge(options.judge_text, model, options.megabytes)
    )
    passes = Passes(model)
    template = blank_template(model, options.length)
    target = Target(model, template)
    if options.starts:
        sentences = [
            line for line in read_lines(options.starts) if line.isprintable() and line[0].isupper() and line.endswith(".")
        ]
        rows = [model.words.encode(line) for line in sentences]
        fitting = [row for row in rows if len(row) == len(template) and not set(row[1:-1]) & set(model.special_ids)]
        starts = torch.tensor(fitting[: options.chains])
    else:
        starts = decode(Ancestral(target, passes), options.chains, ChainStreams(options.seed, range(options.chains)).at(0, 0))[
            0
        ].ids

    def scores(ids: Tensor) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        state = ChainState.at(target, ids)
        state.complete(target, passes)
        energy = state.energy.cpu().numpy() / options.length
        return energy, judge([model.text(row) for row in ids.tolist()])

    def report(name: str, share: float, ids: Tensor, rates: dict[str, float]) -> None:
        energy, score = scores(ids)
        tokens = [row[1:-1] for row in ids.tolist()]
        own = float((ids == starts)[:, target.free_positions].double().mean())
        print(
            f"{name:20} {share * options.passes:6.0f} {rates.get('sweeps', 0):6.0f} "
            f"{with_change(energy, at_start[0])} {with_change(score, at_start[1])} "
            f"{rates.get('accepted', 1):8.1%} {rates.get('changed', 0):7.1%} {rates.get('moves', 0):6.1f} {own:4.0%} "
            f"{stutter_rate(tokens):7.1%} {self_bleu(tokens):6.2f} {distinct(tokens, 2):6.2f}",
            flush=True,
        )

    print(f"{len(starts)} chains of {options.length} tokens, {model.device}; passes, sweeps and moves are those of one chain")
    names = f"{'':20} {'passes':>6} {'sweeps':>6} {'E / T':>6} {'change':>14} {'judge':>6} {'change':>14}"
    print(f"{names} {'accepted':>8} {'changed':>7} {'moves':>6} {'own':>4} {'stutter':>7} {'s-BLEU':>6} {'dist-2':>6}")
    at_start = scores(starts)
    report("start", 0.0, starts, {})
    for name, (kernel, block) in samplers(model, template, passes).items():
        if options.only and not any(part.strip() in name for part in options.only.split(";")):
            continue
        for share, ids, rates in run(kernel, block, starts, [0.25, 0.5, 1.0], options.passes, options.seed):
            report(name, share, ids, rates)


if __name__ == "__main__":
    main()
