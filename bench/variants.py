"""Variants per second: `variant_scores`, which passes each distinct context once, against a plain script, which passes every row.

    python bench/variants.py --model FOLDER                                     all 2^16 variants of 16 binary sites, 121 residues
    python bench/variants.py --model FOLDER --landscape cr9114.json --csv cr9114_h3.csv.gz --device cuda --dtype float16
    python bench/variants.py --model FOLDER --sites 6 --plain 8                 a small one, for a CPU

The landscape's JSON file has germline, mature and positions (from 1), the first column of the CSV file 0 or 1 per position. Plain:
one row per variant and site, or per variant, order and site, in batches of `--rows`, logits at all positions, in the same number
format; it takes the first `--plain` variants, since its time per variant does not depend on how many there are. Both run in this
process. Sites are normalised over the 20 residues.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from unmask.models.masked_lm import MaskedLM
from unmask.tables.lattice import random_orders
from unmask.variants.contexts import Contexts

RESIDUES = "ACDEFGHIKLMNPQRSTVWY"


def landscape(options: argparse.Namespace) -> tuple[str, str, list[int], Tensor]:
    """Two parents, the positions at which they differ (from 1), and 0 or 1 per variant and position."""
    if options.landscape is None:
        generator = torch.Generator().manual_seed(0)
        first = "".join(RESIDUES[i] for i in torch.randint(0, 20, (options.residues,), generator=generator).tolist())
        places = sorted((torch.randperm(options.residues, generator=generator)[: options.sites] + 1).tolist())
        other = "".join(RESIDUES[(RESIDUES.index(x) + 7) % 20] if i + 1 in places else x for i, x in enumerate(first))
        bits = (torch.arange(2**options.sites)[:, None] >> torch.arange(options.sites)) & 1
        return first, other, places, bits
    about = json.loads(Path(options.landscape).read_text())
    read = gzip.open if options.csv.endswith(".gz") else open
    with read(options.csv, "rt") as file:
        rows = list(csv.reader(file))[1:]
    return about["germline"], about["mature"], about["positions"], torch.tensor([[int(x) for x in row[0]] for row in rows])


def plain_rows(ids: Tensor, sites: list[int], variants: Tensor, mask: int, orders: list[list[int]]) -> Iterator[tuple]:
    """(text, position, token, variant, order) of every pass of pll, or of every order."""
    for number, tokens in enumerate(variants):
        filled = ids.clone()
        filled[sites] = tokens
        if not orders:
            for site, token in zip(sites, tokens.tolist(), strict=True):
                row = filled.clone()
                row[site] = mask
                yield row, site, token, number, 0
        for which, order in enumerate(orders):
            row = filled.clone()
            row[sites] = mask
            for place in order:
                yield row.clone(), sites[place], int(tokens[place]), number, which
                row[sites[place]] = tokens[place]


def plain(model: MaskedLM, prepared: list[tuple], shape: tuple[int, int], allowed: Tensor, at_once: int) -> Tensor:
    """The sums by variant and order; `prepared` are the rows, made beforehand, so that only passes are timed."""
    sums = torch.zeros(shape, dtype=torch.float64, device=model.device)
    place = torch.full((model.vocab_size,), -1, device=model.device)
    place[allowed] = torch.arange(len(allowed), device=model.device)
    with torch.no_grad():
        for start in range(0, len(prepared), at_once):
            rows, *numbers = zip(*prepared[start : start + at_once], strict=True)
            positions, tokens, variants, orders = (torch.tensor(part, device=model.device) for part in numbers)
            logits = model.network(input_ids=torch.stack(rows).to(model.device)).logits
            log_q = logits[torch.arange(len(rows)), positions][:, allowed].double().log_softmax(-1)
            taken = log_q.gather(1, place[tokens][:, None])[:, 0]
            sums.index_put_((variants, orders), taken, accumulate=True)
    return sums


def timed(model: MaskedLM, run) -> tuple[float, object]:
    """Seconds, and what came back."""
    start = time.perf_counter()
    found = run()
    if model.device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start, found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--landscape")
    parser.add_argument("--csv")
    parser.add_argument("--residues", type=int, default=121)
    parser.add_argument("--sites", type=int, default=16)
    parser.add_argument("--first", type=int, help="take the first of the variants only")
    parser.add_argument("--plain", type=int, default=2048, help="variants of the plain script")
    parser.add_argument("--rows", type=int, default=1024, help="rows of the plain script's batches")
    parser.add_argument("--orders", type=int, default=8)
    parser.add_argument("--scores", default="pll,any_order", help="pll, any_order, or both with a comma")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--dtype", default="auto")
    options = parser.parse_args()

    model = MaskedLM.load(options.model, options.device, options.dtype)
    first, other, places, bits = landscape(options)
    ids, others = (torch.tensor(model.words.encode(" ".join(text))) for text in (first, other))
    if len(ids) != len(first) + 2:
        raise SystemExit(f"{len(first)} residues are {len(ids)} tokens of this model: give one with a token per residue")
    allowed = torch.tensor([model.words.encode(letter)[1] for letter in RESIDUES])
    bits = bits[: options.first]
    variants = torch.where(bits.bool(), others[places], ids[places])
    print(f"{model.name} on {model.device}, {model.dtype}: {len(variants):,} variants of {len(places)} sites, {len(ids)} tokens")
    for name in options.scores.split(","):
        ours = Contexts(model, ids.tolist(), places, name, allowed.tolist(), options.orders)
        ours.scores(variants[:4096])
        ours.passes = 0
        seconds, found = timed(model, lambda ours=ours: ours.scores(variants))
        some = variants[: options.plain]
        left = random_orders(1, options.orders, len(places), torch.Generator().manual_seed(0))[0].tolist()
        orders = left if name == "any_order" else []
        prepared = list(plain_rows(ids, places, some, model.mask_id, orders))
        shape, on_device = (len(some), len(orders) or 1), allowed.to(model.device)
        plain(model, prepared[: options.rows], shape, on_device, options.rows)
        plain_seconds, sums = timed(model, lambda: plain(model, prepared, shape, on_device, options.rows))
        expected = sums.logsumexp(1).cpu() - torch.tensor(float(shape[1])).log()
        apart = (expected - found[name][: len(some)]).abs()
        all_plain = plain_seconds / len(some) * len(variants)
        plain_passes = len(prepared) // len(some) * len(variants)
        print(f"{name}")
        print(f"  plain   {plain_passes:>10,} rows {all_plain:9.1f} s {len(variants) / all_plain:10,.0f} variants/s (from {len(some):,})")
        print(f"  unmask  {ours.passes:>10,} rows {seconds:9.1f} s {len(variants) / seconds:10,.0f} variants/s")
        print(f"  ratio   {plain_passes / ours.passes:10.2f} rows {all_plain / seconds:8.2f} times the speed")
        print(f"  difference of the scores in nats: median {float(apart.median()):.2g}, largest {float(apart.max()):.2g}")


if __name__ == "__main__":
    main()
