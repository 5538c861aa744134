"""Loss and accuracy of BERT-style models at masked positions of a text, under several masking schemes and by whole words.

    PYTHONPATH=src python bench/masked_accuracy.py TEXT MODEL... [--max-tokens 24] [--limit 200000] [--words 2000]

Lines are cut into sentences; sentences of up to --max-tokens tokens are kept. Nats per token compare models of one
vocabulary only. The last two columns compare any: one word of each sentence is hidden, all of its pieces, and predicted by
the chain rule from left to right; nats per word, and the share of words whose every piece is the most probable.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from tokenizers import Tokenizer

from unmask.models.masked_lm import MaskedLM
from unmask.models.text.word_pieces import load_word_pieces
from unmask.training.corpus import Segmentation, TextSource, TokenPart, sentences, tokenise
from unmask.training.encoder import PackedBert
from unmask.training.masking import parse_scheme
from unmask.training.objectives import Masked
from unmask.training.packing import Vocabulary, validation_rows
from unmask.training.validation import validate

SCHEMES = ("fixed:0.15", "k:1", "k:2", "fixed:0.4")


def held_out(text: Path, folder: Path, device: torch.device) -> tuple[TokenPart, Vocabulary]:
    """The text's sentences in a model's tokens."""
    tokenizer = load_word_pieces(folder)
    with TemporaryDirectory() as cache:
        part = tokenise(TextSource.file(text), tokenizer, Segmentation((4,), 128, 0.0), Path(cache)).train
        return TokenPart(part.ids[:].copy(), part.lengths), Vocabulary.of(tokenizer, device)


def hidden_words(text: Path, tokenizer: Tokenizer, max_tokens: int, words: int) -> list[tuple[list[int], list[int]]]:
    """Ids of sentences and the positions of one word each, chosen by characters: every vocabulary hides the same words."""
    found: list[tuple[list[int], list[int]]] = []
    with text.open(encoding="utf-8") as lines:
        for sentence in (s for line in lines for s in sentences(line.strip())):
            pieces = tokenizer.encode(sentence)
            of_word = pieces.word_ids
            usable = [
                i for i in range(1, len(of_word) - 1) if of_word[i] != of_word[i - 1] and sentence[pieces.offsets[i][0]].isalpha()
            ]
            if 20 <= len(sentence) <= 5 * max_tokens and usable:
                start = usable[len(sentence) % len(usable)]
                found.append((pieces.ids, [i for i, w in enumerate(of_word) if w == of_word[start]]))
            if len(found) == words:
                break
    return found


@torch.no_grad()
def by_words(model: MaskedLM, text: Path, folder: Path, max_tokens: int, words: int) -> tuple[float, float]:
    """Nats per hidden word, and the share of words whose every piece is the most probable given those before it."""
    tokenizer = load_word_pieces(folder)
    mask = tokenizer.token_to_id("[MASK]")
    hidden = hidden_words(text, tokenizer, max_tokens, words)
    by_length: dict[int, list[tuple[int, list[int], int, int]]] = defaultdict(list)
    for n, (ids, word) in enumerate(hidden):
        for k, p in enumerate(word):
            by_length[len(ids)].append((n, [mask if i in word[k:] else t for i, t in enumerate(ids)], p, ids[p]))
    loss, right = 0.0, torch.ones(len(hidden), dtype=torch.bool)
    for rows in by_length.values():
        texts, at, gold = (torch.tensor([row[i] for row in rows]) for i in (1, 2, 3))
        log_q = model.logits(texts, at.unsqueeze(1))[:, 0].float().log_softmax(-1).cpu()
        loss -= float(log_q.gather(1, gold.unsqueeze(1)).sum())
        right[[n for (n, _, _, g), best in zip(rows, log_q.argmax(-1).tolist(), strict=True) if best != g]] = False
    return loss / len(hidden), float(right.float().mean())


def main() -> None:
    """Print a row per model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path)
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--max-tokens", type=int, default=24)
    parser.add_argument("--limit", type=int, default=200_000)
    parser.add_argument("--words", type=int, default=2000)
    options = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    print(f"{options.text.name}, sentences of up to {options.max_tokens} tokens: nats / accuracy")
    print("model".ljust(24) + "".join(s.rjust(16) for s in SCHEMES) + "whole word".rjust(16))
    for folder in options.models:
        model = MaskedLM.load(folder, device=device)
        part, vocabulary = held_out(options.text, folder, device)
        rows = validation_rows([part], options.max_tokens, 128, vocabulary.pad, options.limit)
        bert = PackedBert(model.network)
        figures = [validate(bert, rows, vocabulary, Masked(parse_scheme(s))) for s in SCHEMES]
        words = by_words(model, options.text, folder, options.max_tokens, options.words)
        cells = [f"{f.loss:.3f} / {f.accuracy:.1%}" for f in figures] + [f"{words[0]:.3f} / {words[1]:.1%}"]
        print(folder.name.ljust(24) + "".join(c.rjust(16) for c in cells), flush=True)


if __name__ == "__main__":
    main()
