"""How many reads of the tables each way to the near-compatible joints needs for the same accuracy.

    PYTHONPATH=src python bench/fixed_point.py [--data texts.txt --pairs 8] [--tokens 1024 |
                                --exact] [--members 0,0 0.5,0.25] [--accuracy 1e-3] [--most
                                1000] [--eigen]
    PYTHONPATH=src python bench/fixed_point.py --check --data texts.txt --pairs 1000 [--scheme
                                random] [--model DIR] [--tokens 512 | --exact]

Four ways: eq. 5 from uniform marginals (the published one) and from those of the product joint,
the sweeps of `unmask.joints.sweeps` alone, and what the constructions do by default, stopped by
its own estimate at that accuracy. Accuracy is the larger total variation between the two
marginals and those of a reference run on to an estimated 1e-6; cells read over cells of the
tables count as reads. The ratio is that of the published way to the default. The last columns
tell how many reads the default takes to stop at its stated 1e-4 and how accurate it then is,
from either start; and how far the log-probabilities from the two starts are apart: at most
among tokens above 1e-4, on average over all. `--eigen` adds, for members with alpha = 1, the
second eigenvalue of the Gibbs step and how far the answer is from an eigen-solver's, or with
restarts a linear solver's, in float64.

By default the sentences below on the bundled model, over 1,024 tokens of each blank: half the
likeliest, half drawn from the rest, so that the tail is there too; `--exact` takes the
vocabulary whole.

`--check` asks instead whether `arnold_gokhale` and `restarted` converge on real text, over the
likeliest `--tokens` of a blank; without `--scheme`, half of the pairs are contiguous, half
random. The marginals of each joint are summed from its cells in float64, and both maps that
have the fixed point (eq. 5 and the sweep) are applied to them once, over tables in float64. A
pair fails if a map moves a marginal by more than the solver's tolerance in total variation or
raises one by more than its bound on growth, or if the solver says that it has not converged.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from math import exp, log
from pathlib import Path

import torch
from torch import Tensor

from unmask.common.cloze import Cloze
from unmask.common.errors import UnmaskWarning
from unmask.joints.constructions.arnold_gokhale import TOLERANCE, Member, NearCompatible
from unmask.joints.constructions.closed_forms import chain_weights
from unmask.joints.deriving import derive_blocks
from unmask.joints.family_rule import FamilyRule, plain_step
from unmask.joints.family_solution import members_of
from unmask.joints.fixed_point_check import GROWS, FixedPointCheck, check_fixed_points
from unmask.joints.joint import Joint
from unmask.joints.members import Marginals, Members, flat, start, unflat
from unmask.joints.reading import read_rules
from unmask.joints.registry import named
from unmask.joints.sweeps import sweep
from unmask.models.masked_lm import MaskedLM
from unmask.studies.evaluation.pairs import choose_pairs
from unmask.studies.evaluation.sources import read_texts
from unmask.tables.candidates import choose_candidates
from unmask.tables.conditionals import regular_tokens
from unmask.tables.unary import Tables, tables_of, unary_tables

TEXTS = [
    ("A young woman is playing the guitar on the street.", (2, 3)),
    ("The old man walked slowly along the river to look at the boats.", (10, 11)),
    ("Two children are eating ice cream in the park.", (5, 6)),
    ("The new hospital was opened by the prime minister on Monday.", (8, 9)),
    ("The train was late because of heavy snow in the north.", (4, 9)),
    ("A dog jumps over a fence to catch a ball.", (2, 8)),
]
REFERENCE = 1e-6
AT_ONCE = 32  # Pairs of --check that a GPU takes side by side


def distance(marginals: Sequence[Tensor], reference: Sequence[Tensor]) -> float:
    """The larger total variation of two marginals."""
    return max(
        0.5 * float((a.double() - b.double()).abs().sum())
        for a, b in zip(marginals, reference, strict=True)
    )


class Problem:
    """The fixed point of one member over one pair of tables."""

    def __init__(self, tables: Tables, member: Member) -> None:
        self.tables, self.member, self.members = tables, member, Members.of([tables], [member])
        self.masked, self.uniform = start(tables), start(tables, uniform=True)
        self.reference = self.default(self.masked, REFERENCE)[1]

    def default(
        self, initial: Marginals, tolerance: float = TOLERANCE
    ) -> tuple[float, list[Tensor]]:
        """Reads of the tables, without that for the objective, and the marginals they lead to."""
        members = {"member": self.member}
        ((joint,),) = members_of([self.tables], members, tolerance, initial=initial)
        u, v = joint.marginals()
        reads = joint.report["reads"]
        assert isinstance(reads, float)
        return reads - 1, [v, u]

    def reads_to(
        self, accuracy: float, most: int, step: Callable[[Marginals], Marginals], at: Marginals
    ) -> int | None:
        """Plain steps until the accuracy is reached."""
        for reads in range(1, most + 1):
            at = step(at)
            if distance([m.exp().flatten() for m in at], self.reference) <= accuracy:
                return reads
        return None

    def sweep(self, at: Marginals) -> Marginals:
        """One step of `unmask.joints.sweeps`."""
        return unflat(sweep(self.members, flat(at)[None, :])[0], self.tables.shape)

    def published(self, at: Marginals) -> Marginals:
        """One step of eq. 5."""
        return plain_step(self.tables, at, self.member)

    def eigen(self) -> tuple[float, list[Tensor]]:
        """For alpha = 1, the second eigenvalue of the marginals' step, and the marginals by a
        dense solver.
        """
        a, b = (table.double().exp() for table in self.tables.log_q)
        n, m = a.shape
        eyes = [torch.eye(size, dtype=torch.float64, device=a.device) for size in (n, m)]
        step = 0.5 * torch.cat([torch.cat([eyes[0], a], 1), torch.cat([b.T, eyes[1]], 1)])
        values, vectors = torch.linalg.eig(step)
        order = values.abs().argsort(descending=True)
        law = vectors[:, order[0]].real
        if self.member.restart:
            of_b, of_a = (weights.exp() for weights in chain_weights(self.tables))
            chained = (of_b * a + of_a * b).double()
            right = self.member.restart * torch.cat([chained.sum(1), chained.sum(0)])
            law = torch.linalg.solve(
                torch.eye(n + m, dtype=torch.float64) - (1 - self.member.restart) * step, right
            )
        u, v = (part / part.sum() for part in law.split([n, m]))
        return float(values[order[1]].abs()), [v, u]


def clozes(
    model: MaskedLM, data: Path | None, pairs: int, seed: int, scheme: str | None = None
) -> Iterator[Cloze]:
    """Texts with two blanks; without a scheme half of them contiguous, half random."""
    if data is None:
        for text, positions in TEXTS:
            yield model.cloze(text, positions)
        return
    texts = read_texts(str(data))
    for name, number in (
        ((scheme, pairs),) if scheme else (("contiguous", (pairs + 1) // 2), ("random", pairs // 2))
    ):
        chosen, _ = choose_pairs(
            texts, model.words.encode, model.special_ids, name, number, seed, max_tokens=40
        )
        for pair in chosen:
            yield pair.cloze(model.mask_id)


def tokens_of(model: MaskedLM, cloze: Cloze, tokens: int) -> list[Tensor]:
    """For each blank half the likeliest tokens, half of the rest at random, and the gold one."""
    ids, block = (
        torch.tensor([cloze.ids], device=model.device),
        torch.tensor([cloze.block], device=model.device),
    )
    generator = torch.Generator().manual_seed(0)
    sets, regular = [], regular_tokens(model).cpu()
    for logits, gold in zip(model.logits(ids, block)[0].cpu(), cloze.gold or (), strict=True):
        order = regular[logits[regular].argsort(descending=True)]
        rest = order[tokens // 2 :]
        drawn = rest[torch.randperm(len(rest), generator=generator)[: tokens - tokens // 2]]
        sets.append(torch.cat([order[: tokens // 2], drawn, torch.tensor([gold])]).unique())
    return sets


def member_of(name: str) -> Member:
    """The member of the family of that name; of other constructions that of alpha 0."""
    construction = named(name)
    if isinstance(construction, NearCompatible):
        return construction.member
    return Member(0.0)


def standing(joint: Joint) -> FixedPointCheck:
    """How far both maps move and raise the joint's own marginals, in float64."""
    tables = replace(
        joint.tables,
        log_q=tuple(q.double().log_softmax(t) for t, q in enumerate(joint.tables.log_q)),
    )
    one = member_of(joint.name)
    cells = joint.dense().double()
    marginals = (cells.logsumexp(0, keepdim=True), cells.logsumexp(1, keepdim=True))
    reading = read_rules([(tables, [FamilyRule.at(tables, marginals, one)])])[0]
    return check_fixed_points(Members.of([tables], [one]), [marginals], reading)[0]


def check(model: MaskedLM, every: Iterator[Cloze], tokens: int | None) -> None:
    """Derive both constructions for each pair; print every failure, and the counts now and then
    and at the end.
    """
    warnings.simplefilter("ignore", UnmaskWarning)
    names = ("arnold_gokhale", "restarted")
    rules = [named(name) for name in names]
    failed, steps, worst, count = (
        dict.fromkeys(names, 0),
        dict.fromkeys(names, 0),
        FixedPointCheck(0.0, 0.0),
        0,
    )
    while some := list(islice(every, AT_ONCE if model.device.type == "cuda" else 1)):
        sets = [
            choose_candidates(model, cloze, "all" if tokens is None else tokens) for cloze in some
        ]
        for cloze, joints in zip(
            some, derive_blocks(tables_of(model, some, sets), rules), strict=True
        ):
            for joint in joints:
                now, report = standing(joint), dict(joint.report)
                steps[joint.name] = max(steps[joint.name], int(str(report["steps"])))
                worst = FixedPointCheck(max(worst.moved, now.moved), max(worst.growth, now.growth))
                if not (report["converged"] and now.moved < TOLERANCE and now.growth < GROWS):
                    failed[joint.name] += 1
                    print(
                        f"{joint.name} fails at {cloze.block} of {model.decode(cloze.ids)}: {now},"
                        f" {report}",
                        flush=True,
                    )
        count += len(some)
        if count % 16 == 0:
            print(f"{count} pairs: failed {failed}", flush=True)
    print(f"{count} pairs: failed {failed}, most steps {steps}, largest {worst}")


def main() -> None:
    """Print one row per pair, and the summary of each member."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model")
    parser.add_argument(
        "--data", type=Path, help="one text per line, instead of the sentences above"
    )
    parser.add_argument(
        "--pairs", type=int, default=8, help="of --data: half contiguous, half random"
    )
    parser.add_argument(
        "--scheme", choices=["contiguous", "random"], help="of --data: all pairs so"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument("--exact", action="store_true")
    parser.add_argument("--members", nargs="+", default=["0,0"], help="ALPHA,LAMBDA of each")
    parser.add_argument("--accuracy", type=float, default=1e-3)
    parser.add_argument(
        "--most", type=int, default=1000, help="plain steps to give up after; 0 leaves them out"
    )
    parser.add_argument("--eigen", action="store_true")
    parser.add_argument("--check", action="store_true", help="whether the solver converges")
    parser.add_argument("--device", default="auto")
    options = parser.parse_args()
    model = (
        MaskedLM.load(options.model, device=options.device)
        if options.model
        else MaskedLM.load(device=options.device)
    )
    every = clozes(model, options.data, options.pairs, options.seed, options.scheme)
    if options.check:
        check(model, every, None if options.exact else options.tokens)
        return
    every_member = [member_of(f"family:{text}") for text in options.members]
    print(f"reads of the tables to {options.accuracy:g} in total variation")
    print(
        "| member | blanks | eq. 5, uniform | eq. 5, masked | sweeps | default | ratio | stops"
        " after | then off by | log gap |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    ratios: dict[Member, list[float]] = {one: [] for one in every_member}
    stops: dict[Member, list[float]] = {one: [] for one in every_member}
    worst = dict.fromkeys(every_member, 0.0)
    for cloze in every:
        tables = unary_tables(
            model, cloze, None if options.exact else tokens_of(model, cloze, options.tokens)
        )
        blanks = (
            "_".join(model.decode(cloze.gold or ()))
            if options.data is None
            else f"{cloze.block} of {len(cloze.ids)}"
        )
        for one in every_member:
            problem = Problem(tables, one)
            ways = [
                (problem.published, problem.uniform),
                (problem.published, problem.masked),
                (problem.sweep, problem.masked),
            ]
            plain = [
                problem.reads_to(options.accuracy, options.most, step, at) for step, at in ways
            ]
            reached, there = problem.default(problem.masked, options.accuracy)
            assert distance(there, problem.reference) <= options.accuracy
            ends = [problem.default(initial) for initial in (problem.masked, problem.uniform)]
            off = [distance(marginals, problem.reference) for _, marginals in ends]
            first, second = (torch.cat(marginals).clamp_min(1e-37).log() for _, marginals in ends)
            gap = (first - second).abs()
            ratios[one].append((plain[0] or options.most or 1) / reached)
            stops[one] += [reads for reads, _ in ends]
            worst[one] = max(worst[one], *off)
            shown = [str(n) if n else f"> {options.most}" for n in plain]
            print(
                f"| {one.alpha:g}, {one.restart:g} | {blanks} | {' | '.join(shown)} | {reached:.0f}"
                f" | {'' if plain[0] else '> '}{ratios[one][-1]:.0f} | {ends[0][0]:.0f},"
                f" {ends[1][0]:.0f} | {off[0]:.0e}, {off[1]:.0e} |"
                f" {float(gap[first > log(1e-4)].max()):.0e}, {float(gap.mean()):.0e} |",
                flush=True,
            )
            if options.eigen and one.alpha == 1:
                second_value, law = problem.eigen()
                apart = [distance(marginals, law) for _, marginals in ends]
                print(
                    f"  second eigenvalue {second_value:.5f}, off the dense solver by"
                    f" {apart[0]:.0e}, {apart[1]:.0e}",
                    flush=True,
                )
    for one in every_member:
        print(
            f"\nalpha {one.alpha:g}, lambda {one.restart:g}: ratio of the published way to the"
            f" default, geometric mean {exp(sum(map(log, ratios[one])) / len(ratios[one])):.0f} or"
            f" more, least {min(ratios[one]):.0f}; reads to stop at the stated {TOLERANCE:g}: mean"
            f" {sum(stops[one]) / len(stops[one]):.0f}, most {max(stops[one]):.0f}, off by at most"
            f" {worst[one]:.0e}"
        )


if __name__ == "__main__":
    main()
