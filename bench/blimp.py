"""Minimal pairs of BLiMP (Warstadt et al. 2020) by every score: accuracy per phenomenon with
intervals, and nats per token.

    python bench/blimp.py FOLDER [--scores pll,any_order] [--most-tokens 11] [--per-set 300]
        [--device cuda] [--out DIR]

FOLDER holds BLiMP's .jsonl files. `--most-tokens` keeps the pairs whose two sentences have at
most so many tokens, which makes any_order exact and equal for all scores; `--per-set` takes the
first pairs of each set. Prints Markdown: one table of accuracies (per cent, 95 % Wilson
intervals, ties half), one of nats per token of the acceptable sentences, of which only those of
a probability are a code length. With `--out`, the run goes on after an interrupt and keeps all
scores.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from unmask.models.load import load
from unmask.models.masked_lm import MaskedLM
from unmask.scoring.registry import with_names
from unmask.verbs.minimal_pairs import PairScores, minimal_pairs

PHENOMENA = {
    "anaphor": "anaphor agreement",
    "animate": "argument structure",
    "causative": "argument structure",
    "drop_argument": "argument structure",
    "inchoative": "argument structure",
    "intransitive": "argument structure",
    "passive": "argument structure",
    "transitive": "argument structure",
    "principle_A": "binding",
    "existential_there_object": "control, raising",
    "existential_there_subject": "control, raising",
    "expletive_it": "control, raising",
    "tough": "control, raising",
    "determiner_noun": "determiner-noun agreement",
    "ellipsis": "ellipsis",
    "wh_questions": "filler-gap",
    "wh_vs_that": "filler-gap",
    "irregular_past": "irregular forms",
    "adjunct_island": "islands",
    "complex_NP": "islands",
    "coordinate_structure": "islands",
    "left_branch": "islands",
    "sentential_subject": "islands",
    "wh_island": "islands",
    "matrix_question_npi": "NPI licensing",
    "npi_present": "NPI licensing",
    "only_npi": "NPI licensing",
    "sentential_negation": "NPI licensing",
    "existential_there_quantifiers": "quantifiers",
    "superlative": "quantifiers",
    "distractor": "subject-verb agreement",
    "irregular_plural": "subject-verb agreement",
    "regular_plural": "subject-verb agreement",
}
"""Beginnings of the sets' names, and BLiMP's phenomena."""


def phenomenon(uid: str) -> str:
    """Of a set."""
    return next(name for start, name in PHENOMENA.items() if uid.startswith(start))


def pairs_in(
    folder: Path, model: MaskedLM, most_tokens: int | None, per_set: int
) -> list[dict[str, Any]]:
    """The pairs, each with its phenomenon."""
    found = []
    for file in sorted(folder.glob("*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines()[:per_set]:
            pair = json.loads(line)
            lengths = [
                len(model.words.encode(pair[key])) - 2 for key in ("sentence_good", "sentence_bad")
            ]
            if most_tokens is None or max(lengths) <= most_tokens:
                found.append(pair | {"phenomenon": phenomenon(pair["UID"])})
    return found


def table(found: PairScores) -> str:
    """Accuracies as Markdown."""
    names = list(found.scores)
    lines = [
        f"| | pairs | ties | {' | '.join(names)} |",
        f"| --- | ---: | ---: |{' ---: |' * len(names)}",
    ]
    for level in ("phenomenon", "all"):
        rows = [row for row in found.accuracy if row["level"] == level]
        for name in sorted({row["name"] for row in rows}):
            mine = {row["score"]: row for row in rows if row["name"] == name}
            first = mine[names[0]]
            cells = [_cell(mine[each]) for each in names]
            lines.append(
                f"| {name} | {first['n_pairs']} | {first['n_ties']} | {' | '.join(cells)} |"
            )
    return "\n".join(lines)


def _cell(row: dict[str, Any]) -> str:
    if row["accuracy"] is None:
        return "-"
    return f"{100 * row['accuracy']:.1f} [{100 * row['low']:.0f}, {100 * row['high']:.0f}]"


def nats_per_token(found: PairScores, model: MaskedLM) -> str:
    """Of the acceptable sentences, as Markdown."""
    lines = ["| score | nats per token | a code length? |", "| --- | ---: | --- |"]
    for name in found.scores:
        if name.startswith("energy"):
            continue
        known = [row for row in found.rows if row[f"good_{name}"] is not None]
        tokens = sum(len(model.words.encode(row["sentence_good"])) - 2 for row in known)
        nats = -sum(row[f"good_{name}"] for row in known) / tokens
        lines.append(
            f"| {name} | {nats:.2f} | {'yes' if with_names()[name].probability else 'no'} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Print the two tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--scores", default=",".join(name for name in with_names() if name != "energy_norm")
    )
    parser.add_argument("--most-tokens", type=int)
    parser.add_argument("--per-set", type=int, default=300)
    parser.add_argument("--model")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    model = load(given.model, given.device, given.dtype)
    pairs = pairs_in(given.folder, model, given.most_tokens, given.per_set)
    found = minimal_pairs(pairs, score=given.scores, model=model, out=given.out)
    print(f"{len(pairs)} pairs\n\n{table(found)}\n\n{nats_per_token(found, model)}")


if __name__ == "__main__":
    main()
