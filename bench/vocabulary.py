"""How many tokens the vocabulary of a small corpus should have: what models of each number
predict of held-out text.

    python bench/vocabulary.py CORPUS HELD_OUT [--lines 300 1000 3000 10000] [--vocab 256 512
        1024 2048 4096]

Each model is trained on the first lines of CORPUS by `unmask train` with the settings that it
chooses, except the vocabulary. Losses per token of two vocabularies do not compare, since
longer tokens are harder to predict. Two numbers per character do:

    masked       loss of the validation (15 % of the tokens masked), times the tokens of the
                 held-out text, over its characters
    whole words  minus pll_word over the characters: every piece of a word is hidden when the
                 word is predicted

Where 15 % of the tokens are masked, the rest of a word that is cut into pieces is often
visible. So `masked` is kind to small vocabularies, and `whole words` is strict. Characters of
words that are [UNK] do not count, while their loss does.
"""

from __future__ import annotations

import argparse
import logging
import tempfile
import time
from itertools import islice
from pathlib import Path

import unmask
from unmask.models.text.word_pieces import load_word_pieces
from unmask.runs.lines import numbered_lines

SHORT = 160
"""Characters of the longest text that is scored; of 256 tokens it has about 90."""


def first_lines(path: Path, count: int) -> list[str]:
    """The first lines of a file that are not blank."""
    lines = (line.strip() for _, line in numbered_lines(path))
    return list(islice(filter(None, lines), count))


def characters_spelled(texts: list[str], folder: Path) -> tuple[int, int, int]:
    """Of these texts: tokens, how many of them are [UNK], and the characters of the others,
    spaces included.
    """
    tokenizer = load_word_pieces(folder)
    unknown = tokenizer.token_to_id("[UNK]")
    tokens = unknowns = characters = 0
    for text in texts:
        encoding = tokenizer.encode(text, add_special_tokens=False)
        lost = [
            stop - start
            for i, (start, stop) in zip(encoding.ids, encoding.offsets, strict=True)
            if i == unknown
        ]
        tokens += len(encoding.ids)
        unknowns += len(lost)
        characters += len(text) - sum(lost)
    return tokens, unknowns, characters


def measured(
    corpus: list[str], held_out: list[str], short: list[str], vocab: int | None, device: str
) -> list[str]:
    """A row of the table: one model."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        run = unmask.train(
            corpus,
            out=Path(folder) / "model",
            shape=unmask.Shape(vocab=vocab),
            held_out=unmask.HeldOut(valid=held_out),
            device=device,
        )
        seconds = time.perf_counter() - began
        tokens, unknown, characters = characters_spelled(held_out, run.out)
        masked = run.validation.loss * tokens / characters
        scores = [
            row["pll_word"] for row in unmask.score(short, model=run.out, score="pll_word").rows
        ]
        words = -sum(scores) / characters_spelled(short, run.out)[2]
    settings = run.settings
    return [
        f"{len(corpus):,}",
        f"{settings.vocab:,}{' (chosen)' if vocab is None else ''}",
        f"{settings.layers} x {settings.width}",
        f"{run.tokens:,}",
        f"{run.steps:,}",
        f"{seconds:.0f}",
        f"{unknown / tokens:.1%}",
        f"{masked:.3f}",
        f"{words:.3f}",
    ]


def main() -> None:
    """Print one row per model."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpus", type=Path)
    parser.add_argument("held_out", type=Path)
    parser.add_argument("--lines", type=int, nargs="+", default=[300, 1000, 3000, 10000])
    parser.add_argument(
        "--vocab",
        type=int,
        nargs="+",
        default=[256, 512, 1024, 2048, 4096],
        help="0: what train chooses",
    )
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--held-out-lines", type=int, default=300)
    options = parser.parse_args()
    logging.getLogger("unmask").setLevel(logging.WARNING)
    held_out = first_lines(options.held_out, options.held_out_lines)
    short = [text for text in held_out if len(text) <= SHORT][:100]
    print(
        "| lines | vocabulary | shape | tokens | steps | seconds | [UNK] | masked | whole words |"
    )
    print("| ---: | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: |", flush=True)
    for count in options.lines:
        corpus = first_lines(options.corpus, count)
        for vocab in options.vocab:
            row = measured(corpus, held_out, short, vocab or None, options.device)
            print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
