"""People's answers to cloze sentences against a model's probability of them as whole words, and against the first-piece practice.

Each line of the file: {"text": "... ____ ...", "answers": {"hive": 0.43, ...}}: a sentence with one gap, and the share of people
who gave each answer. Answers of one word are kept. Compared are

    word, uniform     the probability of the word in [WORD], as the tokenizer spells it, lengths counting alike
    word, fit         the same, lengths weighed by how well they fit
    first piece       one [MASK]: the probability of the answer's first token, as fill-mask pipelines score words that split

by the rank and the probability of the most given answer (the rank of a word: among those that the search has found and itself,
so a lower bound far down), and by the correlation (Spearman's) of the probability with the share
of people: over all answers of all sentences, and within a sentence (the mean over those with five answers or more).

    python bench/cloze_norms.py norms.jsonl --limit 300 --device cpu
"""

from __future__ import annotations

import argparse
import json
import re
import time
from dataclasses import dataclass, field
from math import log
from pathlib import Path

import numpy as np
import torch
from scipy.stats import spearmanr

import unmask
from unmask.joints.chain_search import search_fillings
from unmask.models.text.blanks import Blank, TextReading, read_blanks, reading_with
from unmask.models.text.words import WordMarks
from unmask.tables.exploration import Variant
from unmask.tables.lattice import lattice
from unmask.tables.revealing import Conditionals, length_weights, regular_tokens

PIECES = 3
METHODS = ("word, uniform", "word, fit", "first piece")


@dataclass
class Item:
    """A sentence's answers: share of people, number of tokens, and log-probability by each method; ranks of the most given."""

    shares: list[float] = field(default_factory=list)
    pieces: list[int] = field(default_factory=list)
    scores: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in METHODS})
    ranks: dict[str, float] = field(default_factory=dict)


def sentences(path: Path, limit: int | None) -> list[tuple[str, dict[str, float]]]:
    """(text with [WORD], shares of one-word answers), a random sample of `limit` of them, the same for every run."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    kept = []
    for row in rows:
        text, gaps = re.subn(r"_{3,}", "[WORD]", row["text"])
        answers = {answer: share for answer, share in row["answers"].items() if answer.isalpha()}
        if gaps == 1 and answers:
            kept.append((text, answers))
    order = np.random.default_rng(0).permutation(len(kept))[:limit]
    return [kept[i] for i in order]


def measure(model: unmask.MaskedLM, marks: WordMarks, text: str, answers: dict[str, float]) -> Item | None:
    """All methods on one sentence; None where no answer has at most PIECES tokens."""
    conditionals = Conditionals(model, regular_tokens(model))
    (blank,) = read_blanks(model.words, text, PIECES)
    readings = [reading_with(model.words, text, [n]) for n in range(1, PIECES + 1)]
    fit = length_weights(conditionals, [reading.cloze for reading in readings])
    item, spelled = Item(), list[tuple[int, ...]]()
    for answer, share in answers.items():
        try:
            ids = model.words.encode_word(answer, blank.at_start, blank.after_space)
        except unmask.UnmaskError:
            continue
        if len(ids) <= PIECES:
            item.shares.append(share)
            item.pieces.append(len(ids))
            spelled.append(tuple(ids))
    if not spelled:
        return None
    log_p = np.zeros(len(spelled))
    for length, reading in enumerate(readings, 1):
        mine = [a for a, ids in enumerate(spelled) if len(ids) == length]
        if mine:
            texts = torch.tensor([reading.cloze.filled(spelled[a]) for a in mine])
            found = lattice(conditionals, texts, torch.tensor([reading.cloze.block]).expand(len(texts), -1))
            log_p[mine] = found.log_mean.cpu().numpy()
    places = np.array([len(ids) - 1 for ids in spelled])
    weights = {"word, uniform": np.full(PIECES, 1 / PIECES), "word, fit": np.array(fit)}
    masked = conditionals.distributions(torch.tensor([readings[0].cloze.ids]), torch.tensor([readings[0].cloze.block]))[0, 0]
    item.scores["first piece"] = [float(masked[ids[0]]) for ids in spelled]
    top = int(np.argmax(item.shares))
    item.ranks["first piece"] = float((masked > masked[spelled[top][0]]).sum()) + 1
    words = search(conditionals, marks, blank, readings)
    for name, weight in weights.items():
        item.scores[name] = (log_p + np.log(weight[places])).tolist()
        others = words[:, 1] + np.log(weight[words[:, 0].astype(int)])
        item.ranks[name] = float((others > item.scores[name][top] + 1e-5).sum()) + 1
    return item


def search(conditionals: Conditionals, marks: WordMarks, blank: Blank, readings: list[TextReading]) -> np.ndarray:
    """The likeliest words of each length: (tokens less one, log-probability without the weight of the length)."""
    begin, go_on = marks.beginning(blank.at_start, blank.after_space), marks.continuing
    variants = [Variant(r.cloze, 1 / PIECES, (begin, *[go_on] * (len(r.cloze.block) - 1))) for r in readings]
    found = search_fillings(
        conditionals,
        variants,
        passes=150,
        accept=lambda _, tokens: marks.is_canonical(tokens, blank.at_start, blank.after_space),
    )
    return np.array([(f.variant, f.log_prob + log(PIECES)) for f in found.fillings])


def correlations(items: list[Item], name: str, resamples: int = 200) -> list[str]:
    """Spearman's over all answers, and the mean of those within sentences of five answers or more.

    With 95 % intervals from a bootstrap over sentences.
    """
    inside = np.array([spearmanr(i.shares, i.scores[name]).statistic if len(i.shares) >= 5 else np.nan for i in items])
    chance = np.random.default_rng(1)
    drawn = [np.arange(len(items)), *chance.integers(len(items), size=(resamples, len(items)))]
    found = []
    for chosen in drawn:
        shares = np.concatenate([items[i].shares for i in chosen])
        scores = np.concatenate([items[i].scores[name] for i in chosen])
        found.append((spearmanr(shares, scores).statistic, np.nanmean(inside[chosen])))
    low, high = np.percentile(np.array(found[1:]), [2.5, 97.5], axis=0)
    return [f"{r:.3f} [{a:.3f}, {b:.3f}]" for r, a, b in zip(found[0], low, high, strict=True)]


def report(items: list[Item]) -> None:
    """One row per method; the most given answers of one token, and of several, apart."""
    print("| method | most given | first | among 10 | median rank | mean nats | r, all answers | r, within a sentence |")
    print("| --- | --- | ---: | ---: | ---: | ---: | --- | --- |")
    for name in METHODS:
        told = correlations(items, name)
        for kind, several in (("one token", False), ("several", True)):
            top = [int(np.argmax(item.shares)) for item in items]
            some = [(item, t) for item, t in zip(items, top, strict=True) if (item.pieces[t] > 1) == several]
            ranks = np.array([item.ranks[name] for item, _ in some])
            nats = np.mean([item.scores[name][t] for item, t in some])
            row = [f"{len(some)}, {kind}", f"{(ranks == 1).mean():.1%}", f"{(ranks <= 10).mean():.1%}", f"{np.median(ranks):.0f}"]
            print(f"| {name} | {' | '.join(row)} | {nats:.2f} | {' | '.join(told if not several else ['', ''])} |")


def main() -> None:
    """Measure every sentence, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("norms", type=Path)
    parser.add_argument("--model", default=None)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--limit", type=int, default=None)
    given = parser.parse_args()
    model = unmask.MaskedLM.load(given.model, device=given.device)
    marks = WordMarks(model.words, model.vocab_size)
    start, items = time.perf_counter(), []
    for text, answers in sentences(given.norms, given.limit):
        item = measure(model, marks, text, answers)
        if item is not None:
            items.append(item)
    answers_in_all = sum(len(item.shares) for item in items)
    several = sum(n > 1 for item in items for n in item.pieces) / answers_in_all
    took = time.perf_counter() - start
    print(f"{len(items)} sentences, {answers_in_all} answers, {several:.0%} of several tokens; {took:.0f} s\n")
    report(items)


if __name__ == "__main__":
    main()
