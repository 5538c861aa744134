"""Variants per second: `Contexts`, which passes each distinct context once, against a plain
script, which passes every row.

    python bench/variants.py --device cuda --dtype float16                      all 2^16
                                                                                variants of 16
                                                                                binary sites,
                                                                                121 residues
    python bench/variants.py --model FOLDER --landscape cr9114.json --csv cr9114_h3.csv.gz
        --device cuda --dtype float16
    python bench/variants.py --sites 6 --plain 8                                a small one, for
                                                                                a CPU

Without --model, random weights in the shape of AntiBERTy (8 layers of width 512): the speed is
that of the real one. The landscape's JSON file has germline, mature and positions (from 1), the
first column of the CSV file 0 or 1 per position. Plain: one row per variant and site, or per
variant, order and site, in batches of `--rows`, logits at all positions, in the same number
format. It takes the first `--plain` variants, since its time per variant does not depend on how
many there are; the time of all is computed from it. Both run in this process. Sites are
normalised over the 20 residues.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import time
from collections.abc import Callable
from functools import partial
from math import log
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from unmask.joints.registry import DEFAULT_OF_MUTANTS, named
from unmask.models.checkpoint import resolve_dtype
from unmask.models.float32_logits import widen_output
from unmask.models.masked_lm import MaskedLM
from unmask.runs.devices import resolve_device
from unmask.studies.variants.contexts import Contexts
from unmask.studies.variants.scores.chains import AnyOrderSites
from unmask.studies.variants.scores.score import VARIANT_SCORES
from unmask.tables.lattice import random_orders

RESIDUES = "ACDEFGHIKLMNPQRSTVWY"


def random_model(device: str, dtype: str) -> MaskedLM:
    """A BERT of AntiBERTy's shape over the residues."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertForMaskedLM, PreTrainedTokenizerFast

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    core = Tokenizer(
        models.WordLevel(
            {token: i for i, token in enumerate([*special, *RESIDUES])}, unk_token="[UNK]"
        )
    )
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    core.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core, **{f"{name[1:-1].lower()}_token": name for name in special}
    )
    sizes = {
        "hidden_size": 512,
        "num_hidden_layers": 8,
        "num_attention_heads": 8,
        "intermediate_size": 2048,
    }
    torch.manual_seed(0)
    network = BertForMaskedLM(BertConfig(vocab_size=25, initializer_range=0.05, **sizes))
    network = network.to(resolve_device(device), resolve_dtype(dtype)).eval()
    widen_output(network)
    return MaskedLM(network, tokenizer, name="a random model of AntiBERTy's shape")


def landscape(options: argparse.Namespace) -> tuple[str, str, list[int], Tensor]:
    """Two parents, the positions at which they differ (from 1), and 0 or 1 per variant and
    position.
    """
    if options.landscape is None:
        generator = torch.Generator().manual_seed(0)
        first = "".join(
            RESIDUES[i]
            for i in torch.randint(0, 20, (options.residues,), generator=generator).tolist()
        )
        places = sorted(
            (torch.randperm(options.residues, generator=generator)[: options.sites] + 1).tolist()
        )
        other = "".join(
            RESIDUES[(RESIDUES.index(x) + 7) % 20] if i + 1 in places else x
            for i, x in enumerate(first)
        )
        bits = (torch.arange(2**options.sites)[:, None] >> torch.arange(options.sites)) & 1
        return first, other, places, bits
    about = json.loads(Path(options.landscape).read_text())
    read = gzip.open if options.csv.endswith(".gz") else open
    with read(options.csv, "rt") as file:
        rows = list(csv.reader(file))[1:]
    return (
        about["germline"],
        about["mature"],
        about["positions"],
        torch.tensor([[int(x) for x in row[0]] for row in rows]),
    )


def plain_rows(
    ids: Tensor, sites: list[int], variants: Tensor, mask: int, orders: list[list[int]]
) -> tuple[Tensor, Tensor]:
    """Texts (order, step, variant, tokens) and the site that each step predicts: of pll_sites, or
    of every order.
    """
    filled = ids.repeat(len(variants), 1)
    filled[:, sites] = variants
    steps = [[(order[step], order[step:]) for step in range(len(sites))] for order in orders]
    steps = steps or [[(site, [site]) for site in range(len(sites))]]
    texts = filled.repeat(len(steps), len(sites), 1, 1)
    for o, chain in enumerate(steps):
        for j, (_, hidden) in enumerate(chain):
            texts[o, j, :, [sites[site] for site in hidden]] = mask
    return texts, torch.tensor([[site for site, _ in chain] for chain in steps])


def plain(
    model: MaskedLM,
    rows: tuple[Tensor, Tensor],
    sites: list[int],
    variants: Tensor,
    allowed: Tensor,
    at_once: int,
) -> Tensor:
    """The scores by the network's own forward pass, a row at a time: the texts are made
    beforehand, so that passes are timed.
    """
    texts, predicted = rows
    orders, steps, n, _ = texts.shape
    positions = (
        torch.tensor(sites)[predicted][:, :, None].expand(-1, -1, n).flatten().to(model.device)
    )
    tokens = variants.T[predicted].flatten().to(model.device)
    place = torch.full((model.vocab_size,), -1, device=model.device)
    place[allowed] = torch.arange(len(allowed), device=model.device)
    taken = []
    with torch.no_grad():
        for start in range(0, len(tokens), at_once):
            part = slice(start, start + at_once)
            logits = model.network(input_ids=texts.flatten(0, 2)[part].to(model.device)).logits
            here = logits[torch.arange(len(logits), device=model.device), positions[part]]
            log_q = here[:, allowed].double().log_softmax(-1)
            taken.append(log_q.gather(1, place[tokens[part]][:, None])[:, 0])
    sums = torch.cat(taken).reshape(orders, steps, n).sum(1)
    return (sums.logsumexp(0) - log(orders)).cpu()


def timed(model: MaskedLM, run: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds, and what came back."""
    start = time.perf_counter()
    found = run()
    if model.device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start, found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model")
    parser.add_argument("--landscape")
    parser.add_argument("--csv")
    parser.add_argument("--residues", type=int, default=121)
    parser.add_argument("--sites", type=int, default=16)
    parser.add_argument("--first", type=int, help="take the first of the variants only")
    parser.add_argument("--plain", type=int, default=2048, help="variants of the plain script")
    parser.add_argument(
        "--warm", type=int, default=4096, help="variants that are scored before the clock starts"
    )
    parser.add_argument("--rows", type=int, default=1024, help="rows of the plain script's batches")
    parser.add_argument("--orders", type=int, default=8)
    parser.add_argument(
        "--scores",
        default="pll_sites,any_order_sites",
        help="pll_sites, any_order_sites, or both with a comma",
    )
    parser.add_argument("--device", default="auto")
    parser.add_argument("--dtype", default="auto")
    options = parser.parse_args()

    given = (options.device, options.dtype)
    model = random_model(*given) if options.model is None else MaskedLM.load(options.model, *given)
    first, other, places, bits = landscape(options)
    ids, others = (torch.tensor(model.words.encode(" ".join(text))) for text in (first, other))
    if len(ids) != len(first) + 2:
        raise SystemExit(
            f"{len(first)} residues are {len(ids)} tokens of this model: give one with a token per"
            " residue"
        )
    allowed = torch.tensor([model.words.encode(letter)[1] for letter in RESIDUES])
    bits = bits[: options.first]
    variants = torch.where(bits.bool(), others[places], ids[places])
    print(
        f"{model.name} on {model.device}, {model.dtype}: {len(variants):,} variants of"
        f" {len(places)} sites, {len(ids)} tokens"
    )
    some, on_device = variants[: options.plain], allowed.to(model.device)
    drawn = random_orders(1, options.orders, len(places), torch.Generator().manual_seed(0))[
        0
    ].tolist()
    for name in options.scores.split(","):
        score = VARIANT_SCORES[name]()
        if isinstance(score, AnyOrderSites):
            score = AnyOrderSites(orders=options.orders)
        score = score.for_construction(named(DEFAULT_OF_MUTANTS))
        ours = Contexts(model, ids.tolist(), places, [score], allowed.tolist())
        ours.scores(variants[: options.warm])
        ours.passes = 0
        seconds, found = timed(model, partial(ours.scores, variants))
        rows = plain_rows(
            ids, places, some, model.mask_id, drawn if name == AnyOrderSites.name else []
        )
        plain(model, (rows[0][:1, :1], rows[1][:1, :1]), places, some, on_device, options.rows)
        plain_seconds, expected = timed(
            model, partial(plain, model, rows, places, some, on_device, options.rows)
        )
        apart = (expected - found[name][: len(some)]).abs()
        all_plain = plain_seconds / len(some) * len(variants)
        plain_passes = rows[1].numel() * len(variants)
        print(name)
        for way, passes, time_of_all in (
            ("plain", plain_passes, all_plain),
            ("unmask", ours.passes, seconds),
        ):
            print(
                f"  {way:7} {passes:>10,} rows {time_of_all:9.1f} s"
                f" {len(variants) / time_of_all:10,.1f} variants/s"
            )
        print(
            f"  ratio   {plain_passes / ours.passes:10.2f} rows {all_plain / seconds:9.2f} times"
            " the speed"
        )
        print(
            f"  the scores of {len(some):,} differ by {float(apart.median()):.2g} nats (median),"
            f" {float(apart.max()):.2g} at most"
        )


if __name__ == "__main__":
    main()
