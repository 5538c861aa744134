"""What the rows of bench/translation_table.py amount to: the table with intervals, and whether energies order translations."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

BASELINE = "mask-predict 10"


def keep(given: argparse.Namespace, name: str, value: Any) -> None:
    """Write a result as JSON."""
    (given.out / f"{name}.json").write_text(json.dumps(value, ensure_ascii=False, default=str))


def lines(path: Path, most: int = 10**9) -> list[str]:
    """The first lines of a file."""
    return path.read_text().splitlines()[:most]


def collect(given: argparse.Namespace, order: Sequence[tuple[str, str]]) -> None:
    """table.json and table.md from all rows that are there, with paired bootstrap intervals against mask-predict of 10 steps."""
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(given.out.glob("row-*.json")):
        found[path.stem.removeprefix("row-")] = json.loads(path.read_text())
    table, references = [], lines(given.data / "test_2016_flickr.en", given.sentences)
    for model, name in order:
        key = f"{model}-{name}"
        if key not in found:
            continue
        baseline = found.get(f"{'distilled' if model == 'causal' else model}-{BASELINE}")
        table.append({"model": model, "row": name, **found[key]["figures"], **bootstrap(references, found[key], baseline)})
    keep(given, "table", table)
    heading = "model | decoding | BLEU | 95 % | against mask-predict 10 | chrF | energy | accepted | novel"
    marks = [f"| {heading} | stutter | in texts | passes | s |", "| --- | --- |" + " ---: |" * 11]
    for one in table:
        marks.append("| " + " | ".join(cells(one)) + " |")
    (given.out / "table.md").write_text("\n".join(marks) + "\n")
    print("\n".join(marks), flush=True)


def cells(one: Mapping[str, Any]) -> list[str]:
    """A row of the table as text."""

    def share(value: float | None, digits: int = 1) -> str:
        return "" if value is None else f"{100 * value:.{digits}f} %"

    interval = f"{one['low']:.1f} to {one['high']:.1f}" if one.get("low") is not None else ""
    against = f"{one['gain']:+.2f} ({one['gain_low']:+.2f} to {one['gain_high']:+.2f})" if one.get("gain") is not None else ""
    energy = "" if one["energy"] is None else f"{one['energy']:.2f}"
    return [
        one["model"], one["row"], f"{one['bleu']:.2f}", interval, against, f"{one['chrf']:.2f}", energy, share(one["accepted"]),
        share(one["novel"]), share(one["stutter"], 2), share(one["stuttering"]), f"{one['passes']:.0f}", f"{one['seconds']:.4f}",
    ]  # fmt: skip


def bootstrap(
    references: Sequence[str], one: dict[str, Any], baseline: dict[str, Any] | None, times: int = 1000
) -> dict[str, Any]:
    """95 % intervals of BLEU, and of its difference from the baseline on the same resampled sentences (Koehn 2004)."""
    import numpy as np
    from sacrebleu.metrics import BLEU

    def counts(found: dict[str, Any]) -> Any:
        if "counts" not in found:
            bleu, texts = BLEU(effective_order=True), [row["text"] for row in found["translations"]]
            stats = [bleu.sentence_score(text, [reference]) for text, reference in zip(texts, references, strict=True)]
            found["counts"] = np.array([[s.sys_len, s.ref_len, *s.counts, *s.totals] for s in stats])
        return found["counts"]

    def bleu_of(sums: Any) -> float:
        system, reference, matched, total = sums[0], sums[1], sums[2:6], sums[6:10]
        if min(matched) == 0:
            return 0.0
        brevity = min(0.0, 1 - reference / max(1, system))
        return float(100 * np.exp(brevity + np.log(matched / total).mean()))

    drawn = np.random.default_rng(0).integers(len(references), size=(times, len(references)))
    own = counts(one)
    values = np.array([bleu_of(own[some].sum(0)) for some in drawn])
    found = {"low": float(np.percentile(values, 2.5)), "high": float(np.percentile(values, 97.5))}
    if baseline is not None and baseline is not one:
        other = counts(baseline)
        gains = values - np.array([bleu_of(other[some].sum(0)) for some in drawn])
        point = bleu_of(own.sum(0)) - bleu_of(other.sum(0))
        found |= {"gain": point, "gain_low": float(np.percentile(gains, 2.5)), "gain_high": float(np.percentile(gains, 97.5))}
    return found


PAIRS = [
    ("masked-mask-predict 10", "causal-beam 5"),
    ("distilled-mask-predict 10", "causal-beam 5"),
    ("distilled-mask-predict 10", "masked-mask-predict 10"),
    ("distilled-one step", "masked-one step"),
    ("refined-mask-predict 10", "masked-mask-predict 10"),
    ("masked-always-accept 1.0", "masked-one step"),
    ("masked-always-accept 0.8", "masked-always-accept 1.0"),
    ("masked-always-accept 1.0", "masked-MH norm"),
    ("distilled-always-accept 1.0", "distilled-MH norm"),
    ("masked-MH raw", "masked-MH norm"),
    ("masked-MH raw from mask-predict 10", "masked-MH norm from mask-predict 10"),
    ("distilled-MH raw from mask-predict 10", "distilled-MH norm from mask-predict 10"),
    ("masked-block MH (product)", "masked-MH norm"),
    ("masked-block MH (sequential)", "masked-MH norm"),
]
"""Rows that the papers' claims, and ours, set against each other."""


def differences(given: argparse.Namespace, *_: str) -> None:
    """BLEU of one row minus that of another, on the same resampled sentences, from rows that are there."""
    found, references = [], lines(given.data / "test_2016_flickr.en", given.sentences)
    for names in PAIRS:
        paths = [given.out / f"row-{name}.json" for name in names]
        if all(path.exists() for path in paths):
            one, other = (json.loads(path.read_text()) for path in paths)
            told = bootstrap(references, one, other)
            found.append({"row": names[0], "minus": names[1], **told})
            print(
                f"{names[0]} minus {names[1]}: {told['gain']:+.2f} ({told['gain_low']:+.2f} to {told['gain_high']:+.2f})",
                flush=True,
            )
    keep(given, "differences", found)


def ordering(given: argparse.Namespace, model: str, _: str) -> None:
    """Whether energies order translations as references do: between ways to decode, and between translations of one sentence.

    Of two ways' different translations of a sentence, how often the one with the lower energy (per token) has the higher chrF.
    """
    import numpy as np
    from sacrebleu.metrics import CHRF
    from scipy.stats import spearmanr

    chrf, references = CHRF(), lines(given.data / "test_2016_flickr.en", given.sentences)
    energy, per_token, quality, bleu, texts = [], [], [], [], []
    for path in sorted(given.out.glob(f"row-{model}-*.json")):
        told = json.loads(path.read_text())
        rows_ = told["translations"]
        energy.append([one["energy"] for one in rows_])
        per_token.append([one["energy"] / max(1, one["length"]) for one in rows_])
        quality.append([chrf.sentence_score(one["text"], [wanted]).score for one, wanted in zip(rows_, references, strict=True)])
        texts.append([one["text"] for one in rows_])
        bleu.append(told["figures"]["bleu"])
    if len(bleu) < 2:
        return
    found: dict[str, Any] = {"ways": len(bleu), "spearman of mean energy and BLEU": spearmanr(np.mean(energy, 1), bleu).statistic}
    for name, table in (("energy", np.array(energy)), ("energy per token", np.array(per_token))):
        agree = pairs = 0
        for a in range(len(table)):
            for b in range(a):
                differ = np.array([x != y for x, y in zip(texts[a], texts[b], strict=True)])
                gap, gain = (table[a] - table[b])[differ], (np.array(quality[a]) - np.array(quality[b]))[differ]
                decided = (gap != 0) & (gain != 0)
                pairs += int(decided.sum())
                agree += int(((gap < 0) == (gain > 0))[decided].sum())
        found[f"lower {name} is better"] = {"share": agree / max(1, pairs), "pairs": pairs}
    keep(given, f"ordering-{model}", found)
    print(model, found, flush=True)


def summary_of(pairs: Sequence[Sequence[float]]) -> dict[str, Any]:
    """Stutter by tenths of measured dependence, its mean where there is and is no stutter, and the area under the curve."""
    import numpy as np

    table = np.array(pairs)
    information, stutter = table[:, 0], table[:, 1].astype(bool)
    rank = information.argsort().argsort() + 1
    positive, negative = int(stutter.sum()), int((~stutter).sum())
    area = (rank[stutter].sum() - positive * (positive + 1) / 2) / max(1, positive * negative)
    tenths = [
        {"up to": float(part[:, 0].max()), "stutter": float(part[:, 1].mean()), "pairs": len(part)}
        for part in np.array_split(table[information.argsort()], 10)
        if len(part)
    ]
    means = {
        name: float(information[where].mean()) if where.any() else None for name, where in (("yes", stutter), ("no", ~stutter))
    }
    return {
        "neighbours": len(table),
        "stutter": float(stutter.mean()),
        "mean information": means,
        "area": float(area),
        "tenths": tenths,
    }
