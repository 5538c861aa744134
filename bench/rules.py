"""Which rule over the two tables of a pair predicts the text best, and how faithful it is: rows for `bench/family_choice.py`.

    PYTHONPATH=src python bench/rules.py --data snli.txt xsum.txt --out ROWS [--pairs 250] [--model NAME] [--dtype float16]
                                [--shard 0/6] [--seconds 200] [--tokens 512]

Cells are a model, a file and a way to choose pairs (contiguous, random). Pairs are taken from the cells in turn, so that
a run that `--seconds` ends is even; `--shard I/N` takes every N-th pair, for N processes side by side. ROWS/MODEL-I.parquet has a
row per pair and rule, in nats: pair_nll, unary_nll, g_kl, a_kl (empty for most pools), steps of the solver; written as it goes.
`--tokens N` cuts the vocabulary to N tokens per blank (half the likeliest, half of the rest at random, and the gold one)
for a quick look on a CPU; its numbers are given that the pair lies there.

The rules: members (alpha, lambda) of the near-compatible family on a grid, what is next to them (`neighbours`), and

    arithmetic pools   w mu + (1 - w) nu          geometric pools   proportional to mu^w nu^(1-w)

(log-loss of either is at most the mean of the two joints' losses, by Jensen's inequality; for the geometric pool it is
less by minus the log of the Bhattacharyya coefficient).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from fixed_point import tokens_of
from neighbours import arithmetic, geometric, masked_weights, one_order

from unmask.evaluation.pairs import SCHEMES, PositionPair, choose_pairs, read_texts
from unmask.joints import derive_all
from unmask.joints.joint import Joint
from unmask.joints.metrics import block_metrics
from unmask.joints.registry import Member
from unmask.models.masked_lm import MaskedLM
from unmask.runs.files import write_table
from unmask.tables.unary import Tables, unary_tables

GRID = {
    0.0: (0.5,),
    0.25: (0.0, 0.5),
    0.5: (0.05, 0.1, 0.25, 0.5),
    0.75: (0.0, 0.05, 0.1, 0.25, 0.5),
    1.0: (0.05, 0.1, 0.25, 0.5),
}
"""lambda of each alpha; the others with lambda = 0 have names."""
NAMED = ("product", "arnold_gokhale", "balanced", "pseudo_gibbs", "chain")
MEMBERS = tuple(f"family:{alpha:g},{restart:g}" for alpha, restarts in GRID.items() for restart in restarts)
MASKED = (Member(0.5), Member(0.5, 0.25), Member(1.0), Member(1.0, 0.1))
ONE_ORDER = (Member(0.5, 0.25), Member(1.0, 0.1))
POOLED = ("arnold_gokhale", "balanced", "pseudo_gibbs", "family:0.5,0.25", "family:0.75,0.25", "family:1,0.1")
"""Pooled with the chain."""
SHARES = (0.25, 0.5, 0.75)
"""Of the chain in an arithmetic pool; the geometric pools are equal."""
READ = ("balanced", "family:1,0.1")
"""Whose equal arithmetic pools are read over the whole tables, for A-KL; geometric pools always are, for their normaliser."""
STORE_EVERY = 8.0


def solved(tables: Tables) -> dict[str, Joint]:
    """The joints that are no pools."""
    joints = derive_all(tables, (*NAMED, *MEMBERS)) + masked_weights(tables, MASKED) + one_order(tables, ONE_ORDER)
    return {joint.name: joint for joint in joints}


def read_pools(joints: Mapping[str, Joint]) -> Iterator[Joint]:
    """The pools with the chain that are read over the whole tables."""
    for name in READ:
        for kind, pool in (("geometric ", geometric), ("", arithmetic)):
            yield pool(f"{kind}chain 0.5 {name}", [joints["chain"], joints[name]], [0.5, 0.5])


def other_pools(joints: Mapping[str, Joint]) -> Iterator[Joint]:
    """The arithmetic pools that are looked at in the gold contexts alone."""
    for name in POOLED:
        for share in SHARES:
            if not (share == 0.5 and name in READ):
                yield arithmetic(f"chain {share:g} {name}", [joints["chain"], joints[name]], [share, 1 - share])


def gold_row(joint: Joint, gold: Sequence[int]) -> dict[str, Any]:
    """What the gold contexts tell of a normalised joint: all but A-KL."""
    places = [int((axis == token).nonzero()) for axis, token in zip(joint.tables.candidates, gold, strict=True)]
    lines = [(slice(None), slice(places[1], places[1] + 1)), (slice(places[0], places[0] + 1), slice(None))]
    unary, kl = torch.zeros((2, 2), dtype=torch.float64)
    for t, line in enumerate(lines):
        cells, log_q = joint.rule(line).double().flatten(), joint.tables.log_q[t][line].double().flatten().log_softmax(0)
        log_mu = cells.log_softmax(0)
        unary[t], kl[t] = -log_mu[places[t]], (log_q.exp() * (log_q - log_mu)).sum()
    return {"rule": joint.name, "pair_nll": -float(cells[places[1]]), "unary_nll": float(unary.mean()), "g_kl": float(kl.mean())}


@torch.inference_mode()
def measure(model: MaskedLM, pair: PositionPair, tokens: int | None) -> list[dict[str, Any]]:
    """A row per rule."""
    cloze = pair.cloze(model.mask_id)
    regular = torch.tensor(model.regular_ids)
    tables = unary_tables(model, cloze, tokens_of(model, cloze, tokens) if tokens else [regular, regular])
    joints = solved(tables)
    rows = [
        {
            "rule": found.construction,
            "pair_nll": found.joint_nll,
            "unary_nll": sum(found.unary_nll) / 2,
            "g_kl": found.g_kl,
            "a_kl": found.a_kl,
            "steps": joint.report.get("steps"),
        }
        for read in (list(joints.values()), list(read_pools(joints)))
        for joint, found in zip(read, block_metrics(read, pair.gold).joints, strict=True)
    ]
    return rows + [gold_row(pool, pair.gold) for pool in other_pools(joints)]


def main() -> None:
    """Measure and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, nargs="+", required=True, help="files with a text a line")
    parser.add_argument("--out", type=Path, required=True, help="a folder")
    parser.add_argument("--pairs", type=int, default=250, help="of each cell")
    parser.add_argument("--model")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--max-tokens", type=int, default=64, help="longer texts are left out")
    parser.add_argument("--tokens", type=int)
    parser.add_argument("--shard", default="0/1")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    options = parser.parse_args()
    began = stored = time.monotonic()
    shard, shards = map(int, options.shard.split("/"))
    model = MaskedLM.load(*((options.model,) if options.model else ()), device=options.device, dtype=options.dtype)
    name = Path(options.model).name if options.model else "bundled"
    special = sorted(set(range(model.vocab_size)) - set(model.regular_ids))
    cells = {
        (name, path.stem, scheme): choose_pairs(
            read_texts(str(path)), model.words.encode, special, scheme, options.pairs, options.seed, options.max_tokens
        )[0]
        for path in options.data
        for scheme in SCHEMES
    }
    rows: list[dict[str, Any]] = []
    file = options.out / f"{name}-{shard}.parquet"
    for number in range(shard, options.pairs, shards):
        for cell, pairs in cells.items():
            about = {"cell": " ".join(cell), "pair": number, "tokens": len(pairs[number].ids)}
            rows += [{**about, **row} for row in measure(model, pairs[number], options.tokens)]
        now = time.monotonic()
        if now - stored > STORE_EVERY or now - began > options.seconds or number + shards >= options.pairs:
            stored = now
            write_table(file, rows)
            print(f"{now - began:.0f} s: pair {number} of {options.pairs}", flush=True)
        if now - began > options.seconds:
            break


if __name__ == "__main__":
    main()
