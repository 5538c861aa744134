"""How much of the exact joint do candidate sets hold? The score of `unmask.tables.candidates` against the masked marginal alone.

For each sentence the balanced joint of two blanks over the whole vocabulary of the bundled model (16,374 passes), and the
probability that it gives to the fillings in C_1 x C_2, where C_t holds the n tokens with the highest m_t, or the highest score,
or, as a bound that no choice without the exact joint can be expected to reach, the highest marginal of the exact joint.

    python bench/candidates.py
"""

from __future__ import annotations

import torch
from torch import Tensor

import unmask
from unmask.cloze import Cloze
from unmask.tables.candidates import likely_tokens
from unmask.tables.revealing import regular_tokens

SENTENCES = [
    "She plays the [MASK] [MASK] in a band.",
    "The [MASK] was [MASK] by the police.",
    "She drank a cup of [MASK] [MASK] in the garden.",
]
SIZES = [64, 256, 512, 1024]


def by_marginal(model: unmask.MaskedLM, cloze: Cloze, size: int, regular: Tensor) -> tuple[Tensor, ...]:
    """The `size` tokens of each blank that are most likely with both masked."""
    logits = model.logits(torch.tensor([cloze.ids]), torch.tensor([cloze.block]))[0]
    return tuple(regular[row[regular].topk(size).indices] for row in logits)


def mass(joint: unmask.Joint, sets: tuple[Tensor, ...], regular: Tensor) -> float:
    """mu(C_1 x C_2)."""
    rows, columns = (torch.searchsorted(regular, tokens) for tokens in sets)
    cells = (rows.repeat_interleave(len(columns)), columns.repeat(len(rows)))
    return float(joint.log_tile(cells).double().exp().sum())


def main() -> None:
    """Print one row per sentence and size."""
    model = unmask.MaskedLM.load(device="cpu")
    regular = regular_tokens(model)
    print(f"{'tokens':>6}  {'masked':>6}  {'score':>6}  {'exact':>6}  sentence")
    sums = {size: [0.0, 0.0, 0.0] for size in SIZES}
    for sentence in SENTENCES:
        filling = unmask.fill(sentence, model, exact=True)
        for size in SIZES:
            chosen = [
                by_marginal(model, filling.cloze, size, regular),
                likely_tokens(model, filling.cloze, size, regular),
                tuple(regular[m.topk(size).indices] for m in filling.joint.marginals()),
            ]
            held = [mass(filling.joint, sets, regular) for sets in chosen]
            sums[size] = [a + b for a, b in zip(sums[size], held, strict=True)]
            print(f"{size:>6}", *[f"{value:>7.1%}" for value in held], "", sentence, flush=True)
    for size, totals in sums.items():
        print(f"{size:>6}", *[f"{total / len(SENTENCES):>7.1%}" for total in totals], "", "mean")


if __name__ == "__main__":
    main()
