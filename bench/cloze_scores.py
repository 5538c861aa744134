"""People's answers to cloze sentences against the scores of those answers.

    python bench/cloze_scores.py norms.jsonl [--scores pll,any_order] [--sentences 300] [--model M] [--device cuda]

Each line of the file is {"text": "He fed the __________.", "answers": {"dog": 0.6, ...}}: a sentence with one blank, and the
share of people who gave each answer. An answer is scored as the target between the words before and after the blank. Printed
for each score: Spearman's correlation of shares and scores over all answers, with a 95 % bootstrap interval over sentences; the
mean of the correlations within sentences that have at least five answers; how often the best-scored answer is the people's first
choice; and the same correlation over the answers of several tokens alone, where the scores differ most.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from unmask.models.masked_lm import as_model
from unmask.scoring.registry import SCORES
from unmask.scoring.results import Scores
from unmask.scoring.score import score

BLANK = re.compile(r"_{2,}")
NO_ANSWER = "No Response"
FEWEST = 5
RESAMPLES = 200


def answers_in(path: Path, sentences: int) -> list[dict[str, Any]]:
    """One entry per sentence and answer."""
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines()[:sentences]):
        entry = json.loads(line)
        before, after = BLANK.split(entry["text"], maxsplit=1)
        for answer, share in entry["answers"].items():
            if answer != NO_ANSWER and answer.strip():
                found.append({"before": before, "target": answer, "after": after, "sentence": number, "share": share})
    return found


def correlation(shares: np.ndarray, values: np.ndarray) -> float:
    """Spearman's."""
    return float(spearmanr(shares, values).statistic)


def interval(groups: list[np.ndarray], shares: np.ndarray, values: np.ndarray) -> tuple[float, float]:
    """95 % bootstrap interval over sentences."""
    rng = np.random.default_rng(0)
    drawn = []
    for _ in range(RESAMPLES):
        rows = np.concatenate([groups[i] for i in rng.integers(len(groups), size=len(groups))])
        drawn.append(correlation(shares[rows], values[rows]))
    return float(np.quantile(drawn, 0.025)), float(np.quantile(drawn, 0.975))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("norms", type=Path)
    parser.add_argument("--scores", default="pll,pll_word,left_to_right,right_to_left,confident,any_order")
    parser.add_argument("--sentences", type=int, default=10**9)
    parser.add_argument("--model")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--dtype", default="auto")
    given = parser.parse_args()
    answers = answers_in(given.norms, given.sentences)
    found = score(answers, given.scores, model=as_model(given.model, given.device, given.dtype))
    assert isinstance(found, Scores)
    frame = found.to_frame()
    kept = frame[found.settings.scores[0]].notna().to_numpy()
    sentence = np.array([answer["sentence"] for answer in answers])[kept]
    shares = np.array([answer["share"] for answer in answers])[kept]
    several = frame["length"].to_numpy()[kept] > 1
    groups = [np.flatnonzero(sentence == number) for number in np.unique(sentence)]
    print(f"{len(groups)} sentences, {len(shares)} answers, {several.mean():.0%} of several tokens; {(~kept).sum()} not scored\n")
    print("| score | all answers | within a sentence | people's first choice | several tokens |\n| --- | --- | --- | --- | --- |")
    for name in found.settings.scores:
        values = SCORES[name].better * frame[name].to_numpy(dtype=float)[kept]
        low, high = interval(groups, shares, values)
        large = [rows for rows in groups if len(rows) >= FEWEST and len(set(shares[rows])) > 1]
        within = np.mean([correlation(shares[rows], values[rows]) for rows in large])
        first = np.mean([shares[rows][values[rows].argmax()] == shares[rows].max() for rows in groups])
        print(
            f"| {name} | {correlation(shares, values):.3f} [{low:.3f}, {high:.3f}] | {within:.3f} | {first:.1%} | "
            f"{correlation(shares[several], values[several]):.3f} |"
        )


if __name__ == "__main__":
    main()
