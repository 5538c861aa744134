"""Seconds per exact pair on a GPU: all constructions, all metrics, beside the floor and the
published procedure.

    PYTHONPATH=src python bench/gpu_pair.py [--shape base|large] [--length 16] [--batch 8]
        [--dtype bfloat16] [--published]
    PYTHONPATH=src python bench/gpu_pair.py --model FOLDER [--batch 32] ...

A batch of pairs is measured at once, again and again; then its pairs one by one. The network
has BERT's shape and random weights, its output made as peaked as a trained model's (entropy of
a few nats), since nothing but the numbers of steps of the iterated constructions depends on
what it learnt; those are printed. The floor is the arithmetic of the passes that any procedure
needs, 2V texts through the encoder and the head at one position, at the rate that one large
bfloat16 matrix product reaches in the same run. `--published` runs section 3 of Torroba
Hennigen & Kim 2023 written plainly (bench/pair_table.py) once on the same pair: float32,
batches of 256, logits at all positions, tables through the host, five joints of V x V numbers,
50 steps.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable

import torch
from pair_table import BATCH, plain_joints, plain_metrics
from tokenizers import Tokenizer, models
from torch import Tensor
from transformers import BertConfig, BertForMaskedLM, PreTrainedTokenizerFast

from unmask.common.border.values import accepted
from unmask.common.cloze import Cloze
from unmask.joints.constructions.construction import Construction, Rules
from unmask.joints.deriving import derive_blocks
from unmask.joints.metrics import metrics_of_blocks
from unmask.models.float32_logits import widen_output
from unmask.models.masked_lm import MaskedLM
from unmask.tables.unary import tables_of

SHAPES = {"tiny": (2, 64, 2), "base": (12, 768, 12), "large": (24, 1024, 16)}
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def network_of(shape: str, vocabulary: int, peak: float) -> BertForMaskedLM:
    """A BERT with random weights whose logits are `peak` times as far apart as at
    initialisation.
    """
    layers, width, heads = SHAPES[shape]
    config = BertConfig(
        vocab_size=vocabulary,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=4 * width,
        tie_word_embeddings=False,
    )
    torch.manual_seed(0)
    network = BertForMaskedLM(config)
    with torch.no_grad():
        network.cls.predictions.decoder.weight.mul_(peak)
        for parameter in network.bert.encoder.parameters():
            if parameter.dim() == 2:
                parameter.mul_(2.0)
    return network


def tokenizer_of(vocabulary: int) -> PreTrainedTokenizerFast:
    """A tokenizer of as many tokens."""
    words = {
        token: i
        for i, token in enumerate(SPECIAL + [f"w{i}" for i in range(vocabulary - len(SPECIAL))])
    }
    names = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.WordLevel(words, unk_token="[UNK]")), **names
    )


def random_cloze(model: MaskedLM, length: int, seed: int) -> Cloze:
    """A text of random tokens, its two middle ones masked."""
    ids = torch.randint(
        len(SPECIAL), model.vocab_size, (length,), generator=torch.Generator().manual_seed(seed)
    ).tolist()
    ids[0], ids[-1] = 2, 3
    block = (length // 2 - 1, length // 2)
    gold = tuple(ids[p] for p in block)
    for p in block:
        ids[p] = model.mask_id
    return Cloze(tuple(ids), block, gold)


def seconds(work: Callable[[], object], device: torch.device) -> tuple[float, object]:
    """Wall seconds, the device idle before and after."""
    _wait(device)
    began = time.perf_counter()
    result = work()
    _wait(device)
    return time.perf_counter() - began, result


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def product_rate(device: torch.device) -> float:
    """Operations per second of one large bfloat16 matrix product."""
    size = 8192 if device.type == "cuda" else 512
    a, b = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2))
    for _ in range(3):
        a @ b
    taken, _ = seconds(lambda: [a @ b for _ in range(10)], device)
    return 10 * 2 * size**3 / taken


def needed_operations(model: MaskedLM, length: int) -> float:
    """2V texts through the encoder, and the head at one position of each."""
    config, vocabulary = model.network.config, model.vocab_size
    layers, width = config.num_hidden_layers, config.hidden_size
    encoder = layers * length * (24 * width**2 + 4 * length * width)
    head = 2 * width**2 + 2 * width * vocabulary
    return 2 * vocabulary * (encoder + head)


@torch.inference_mode()
def measure(
    model: MaskedLM, clozes: list[Cloze], constructions: list[Construction]
) -> dict[str, float]:
    """Seconds per pair of the three parts, the pairs measured at once, and the reads of each
    iterated construction.
    """
    taken, blocks = seconds(lambda: tables_of(model, clozes, [None] * len(clozes)), model.device)
    found = {"tables": taken / len(clozes)}
    taken, joints = seconds(lambda: derive_blocks(blocks, constructions), model.device)
    found["joints"] = taken / len(clozes)
    taken, measured = seconds(
        lambda: metrics_of_blocks(joints, [cloze.gold for cloze in clozes]), model.device
    )
    found["metrics"] = taken / len(clozes)
    found["all"] = found["tables"] + found["joints"] + found["metrics"]
    found["entropy"] = float(torch.special.entr(blocks[0].log_q[1][:64].exp()).sum(1).mean())
    found.update({f"reads_{j.name}": j.report["reads"] for j in joints[0] if "reads" in j.report})
    found.update(
        {
            f"a_kl_{m.construction}": m.a_kl
            for m in measured[0].joints
            if m.construction == "arnold_gokhale"
        }
    )
    return found


@torch.no_grad()
def published(network: BertForMaskedLM, cloze: Cloze, device: torch.device) -> dict[str, float]:
    """The plain procedure, once."""
    first, second = cloze.block
    text = torch.tensor([cloze.ids], device=device)

    def predicted(position: int, varied: int) -> Tensor:
        batches = []
        for values in torch.arange(network.config.vocab_size, device=device).split(BATCH):
            rows = text.repeat(len(values), 1)
            rows[:, varied] = values
            batches.append(network(input_ids=rows).logits[:, position].cpu())
        return torch.cat(batches)

    def tables() -> tuple[Tensor, Tensor, Tensor]:
        masked = network(input_ids=text).logits[0, [first, second]]
        return (
            predicted(first, second).to(device).T.contiguous(),
            predicted(second, first).to(device),
            masked.log_softmax(1),
        )

    taken, (logits_a, logits_b, log_m) = seconds(tables, device)
    log_a, log_b = logits_a.log_softmax(0), logits_b.log_softmax(1)
    rest, _ = seconds(
        lambda: plain_metrics(
            plain_joints(logits_a, logits_b, log_a, log_b, log_m), log_a, log_b, cloze.gold
        ),
        device,
    )
    return {"tables": taken, "joints and metrics": rest, "all": taken + rest}


def main() -> None:
    """Parse, warm up, measure, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shape", choices=SHAPES, default="base")
    parser.add_argument("--vocabulary", type=int, default=28_996)
    parser.add_argument("--length", type=int, default=16)
    parser.add_argument("--model", help="a model's folder in place of random weights")
    parser.add_argument("--batch", type=int, default=8, help="pairs at once")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--pairs", type=int, default=3, help="pairs one by one")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--constructions", default="all")
    parser.add_argument("--peak", type=float, default=6.0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--published", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    device = torch.device(options.device)
    network: BertForMaskedLM | None = None
    if options.model:
        model = MaskedLM.load(options.model, options.device, options.dtype)
        options.vocabulary = model.vocab_size
    else:
        network, tokenizer = (
            network_of(options.shape, options.vocabulary, options.peak),
            tokenizer_of(options.vocabulary),
        )
        network = network.to(device, getattr(torch, options.dtype))
        widen_output(network)
        model = MaskedLM(network, tokenizer)
    clozes = [random_cloze(model, options.length, seed) for seed in range(1, options.batch + 1)]
    rules = list(accepted("constructions", options.constructions, Rules))
    measure(model, clozes, rules)
    runs = [measure(model, clozes, rules) for _ in range(options.repeats)]
    alone = [measure(model, [cloze], rules) for cloze in clozes[: options.pairs]]
    peak = torch.cuda.max_memory_allocated(device) if device.type == "cuda" else 0
    floor = needed_operations(model, options.length) / product_rate(device)
    median = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
    parts = ("tables", "joints", "metrics", "all") if alone else ()
    by_itself = {key: statistics.median(run[key] for run in alone) for key in parts}
    result = {
        "settings": vars(options),
        "median": median,
        "alone": by_itself,
        "runs": runs,
        "floor": floor,
        "peak_bytes": peak,
    }
    if options.published and network is not None:
        del model, network
        plain = network_of(options.shape, options.vocabulary, options.peak).to(device).eval()
        result["published"] = published(plain, clozes[0], device)
    if options.json:
        print(json.dumps(result, indent=1, default=str))
        return
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    which = options.model or f"BERT-{options.shape}"
    print(
        f"{name}; {which}, {options.vocabulary} tokens, text of {options.length}, {options.dtype};"
        f" torch {torch.__version__}"
    )
    print(
        f"per pair, {options.batch} at once: "
        + "  ".join(f"{key} {value:.4g}" for key, value in median.items())
    )
    if by_itself:
        print("one by one: " + "  ".join(f"{key} {value:.4g}" for key, value in by_itself.items()))
    print(
        f"floor of the passes {floor:.3f} s: {median['all'] / floor:.2f} times the floor; peak"
        f" {peak / 1e9:.1f} GB"
    )
    if "published" in result:
        plain = result["published"]
        print("published procedure: " + "  ".join(f"{k} {v:.4g}" for k, v in plain.items()), end="")
        print(f"; ratio {plain['all'] / median['all']:.1f}")


if __name__ == "__main__":
    main()
