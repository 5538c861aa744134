"""Rows per second of one side of a pair table: `MaskedLM.substitutions` against the plain Hugging Face call.

    python bench/substitutions.py                                    the bundled model, 16 tokens
    python bench/substitutions.py --shape bert-base --device cuda --dtype bfloat16

Plain: batches of 256 rows, logits at all positions, the asked one picked out, in the same number format. Both run in this
process, in turns; the best of `--repeats` counts. GFLOP/s divides the multiplications and additions of each way's matrix
products by its time.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch

from unmask.models.masked_lm import MaskedLM

TEXT = "A young man in a red shirt plays the guitar on the street while people walk past him and his old brown dog ."


def random_bert_base(device: str, dtype: str) -> MaskedLM:
    """A model of BERT-base-cased's shape with random weights: the speed is that of the real one."""
    from transformers import BertConfig, BertForMaskedLM

    from unmask.models.encoder.head import widen_output
    from unmask.models.loading import resolve_device, resolve_dtype
    from unmask.models.source import english_model_path
    from unmask.models.text.vocabulary import read_folder_tokenizer

    torch.manual_seed(0)
    network = BertForMaskedLM(BertConfig(vocab_size=28996, initializer_range=0.05))
    network = network.to(resolve_device(device), resolve_dtype(dtype)).eval()
    widen_output(network)
    return MaskedLM(network, read_folder_tokenizer(english_model_path()))


def best_time(run: Callable[[], None], device: torch.device, repeats: int) -> float:
    """Seconds of the fastest of `repeats` runs after a warm-up."""
    best = float("inf")
    for _ in range(repeats + 1):
        start = time.perf_counter()
        run()
        if device.type == "cuda":
            torch.cuda.synchronize()
        best = min(best, time.perf_counter() - start)
    return best


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=["bundled", "bert-base"], default="bundled")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--tokens", type=int, default=16)
    parser.add_argument("--rows", type=int, default=1024)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()

    bundled = options.shape == "bundled"
    model = (
        MaskedLM.load(device=options.device, dtype=options.dtype) if bundled else random_bert_base(options.device, options.dtype)
    )
    ids = model.words.encode(TEXT)[: options.tokens - 1] + [model.tokenizer.sep_token_id]
    vary, predict = 4, 5
    ids[vary] = ids[predict] = model.mask_id
    rows = min(options.rows, model.vocab_size)
    values = torch.arange(rows, device=model.device)[:, None]
    texts = torch.tensor(ids, device=model.device).repeat(rows, 1)
    texts[:, vary] = values[:, 0]
    sample = min(rows, 64)

    def plain() -> None:
        with torch.no_grad():
            for part in texts.split(256):
                model.network(input_ids=part).logits[:, predict]

    def ours() -> None:
        for _ in model.substitutions(ids, [vary], values, predict):
            pass

    with torch.no_grad():
        expected = model.network(input_ids=texts[:sample]).logits[:, predict].float().log_softmax(-1)
    got = torch.cat([logits for _, logits in model.substitutions(ids, [vary], values[:sample], predict)]).log_softmax(-1)
    plain_time = best_time(plain, model.device, options.repeats)
    our_time = best_time(ours, model.device, options.repeats)

    config, tokens = model.network.config, len(ids)
    width, inner, layers = config.hidden_size, config.intermediate_size, config.num_hidden_layers
    layer = 4 * width * width + 2 * width * inner + 2 * tokens * width
    head = width * width + width * model.vocab_size
    plain_work = tokens * (layers * layer + head)
    first = tokens * (layer - 3 * width * width) + 3 * width * width
    last = layer + 2 * tokens * width * config.num_attention_heads
    our_work = first + (layers - 2) * tokens * layer + last + head
    print(
        f"{options.shape} on {model.device}, {options.dtype}, {torch.get_num_threads()} threads, {rows} rows of {tokens} tokens"
    )
    for name, seconds, work in [("plain", plain_time, plain_work), ("unmask", our_time, our_work)]:
        rate = 2 * work * rows / seconds / 1e9
        print(f"  {name:7} {rows / seconds:10.0f} rows/s {rate:10.0f} GFLOP/s   {2 * work / 1e6:8.1f} MFLOP a row")
    print(f"  ratio   {plain_time / our_time:10.2f}")
    print(f"  largest difference in log-probability over {sample} rows: {(got - expected).abs().max():.2g}")


if __name__ == "__main__":
    main()
