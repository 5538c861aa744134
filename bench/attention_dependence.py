"""Does attention tell how much two tokens depend on each other?

    python bench/attention_dependence.py sentences.txt [--pairs 300 --candidates 128 --furthest 8 --device cpu --save FILE]

One pair of positions from each of --pairs sentences: a distance drawn uniformly from 1 to --furthest, then a place. Measured
is the mutual information of the two tokens given all others (`unmask dependence`, others as they stand). Beside it, for every
layer, the attention between the two positions, the mean of a -> b and b -> a, as the mean and as the largest over heads; read
in the text with both positions masked, which is what the measurement sees, and in the whole text.

Printed is Spearman's rank correlation, and the partial one: ranks, less what the distance (each one a class of its own) and
the text's length explain, and the entropy of the surer of the two positions with both masked, which bounds the mutual
information and takes one pass. Nearness and that entropy are rows, too: what is known without attention. Intervals hold
95 % of 2,000 bootstrap samples of the pairs, which are of different sentences.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import rankdata

from unmask.answers.dependence import pair_matrix
from unmask.cloze import Cloze
from unmask.models.masked_lm import MaskedLM
from unmask.models.source import english_model_path
from unmask.runs.fingerprint import provenance

Array = NDArray[np.float64]
SHORTEST, LONGEST = 8, 40
RESAMPLES = 2000


def choose_pairs(path: Path, model: MaskedLM, count: int, furthest: int, seed: int) -> list[tuple[list[int], int, int]]:
    """(token ids, a, b) of `count` different sentences of the file."""
    generator = np.random.default_rng(seed)
    lines = sorted({line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()})
    found: list[tuple[list[int], int, int]] = []
    special = set(model.special_ids)
    for place in generator.permutation(len(lines)):
        ids = model.words.encode(lines[place])
        inner = [t for t, token in enumerate(ids) if token not in special]
        if not SHORTEST <= len(inner) <= LONGEST or len(inner) != len(ids) - 2:
            continue
        distance = int(generator.integers(1, min(furthest, len(inner) - 1) + 1))
        first = int(generator.integers(inner[0], inner[-1] - distance + 1))
        found.append((ids, first, first + distance))
        if len(found) == count:
            return found
    raise SystemExit(f"{path} has {len(found)} usable sentences, {count} were asked for: use fewer --pairs")


def attention(network: Any, ids: list[int], a: int, b: int) -> Array:
    """(layers, 2): the mean and the largest over heads of the attention between a and b."""
    with torch.no_grad():
        layers = network(torch.tensor([ids], device=network.device), output_attentions=True).attentions
    between = torch.stack([(layer[0, :, a, b] + layer[0, :, b, a]) / 2 for layer in layers]).double().cpu()
    return torch.stack([between.mean(1), between.amax(1)], 1).numpy()


def smaller_entropy(model: MaskedLM, cloze: Cloze) -> float:
    """min over the two positions of the entropy of the model's distribution with both masked, in nats."""
    logits = model.logits(torch.tensor([cloze.ids]), torch.tensor([cloze.block]))[0].double()
    return float(torch.distributions.Categorical(logits=logits).entropy().min())


def correlations(scores: Array, information: Array, controls: Array | None = None) -> Array:
    """Spearman's correlation of each column of `scores` with `information`; partial given `controls`."""
    ranks = rankdata(np.column_stack([scores, information]), axis=0)
    if controls is None:
        ranks -= ranks.mean(0)
    else:
        ranks -= controls @ np.linalg.lstsq(controls, ranks, rcond=None)[0]
    norms = np.linalg.norm(ranks, axis=0)
    product: Array = (ranks[:, :-1] * ranks[:, -1:]).sum(0)
    found: Array = product / np.maximum(norms[:-1] * norms[-1], 1e-300)
    return found


def controls_of(rows: dict[str, Array], pick: NDArray[np.intp], entropy: bool) -> Array:
    """One column for each distance, one with the rank of the length, and if asked one with that of the entropy."""
    distance = rows["distance"][pick]
    near = [(distance[:, None] == np.unique(distance)).astype(float), rankdata(rows["length"][pick])]
    return np.column_stack([*near, rankdata(rows["entropy"][pick])] if entropy else near)


def with_interval(values: Array, resampled: Array) -> list[str]:
    """Each number and its bootstrap interval."""
    low, high = np.percentile(resampled, [2.5, 97.5], axis=0)
    return [f"{v:+.2f} [{a:+.2f}, {b:+.2f}]" for v, a, b in zip(values, low, high, strict=True)]


def report(rows: dict[str, Array], layers: int, seed: int) -> None:
    """Print the table."""
    n = len(rows["information"])
    names = [f"layer {i + 1}, {kind} of heads" for i in range(layers) for kind in ("mean", "largest")]
    names += ["all layers, mean of heads", "nearness", "smaller entropy"]

    def columns(pick: NDArray[np.intp], name: str) -> Array:
        flat = rows[name][pick].reshape(len(pick), -1)
        overall = rows[name][pick][:, :, 0].mean(1)
        return np.column_stack([flat, overall, -rows["distance"][pick], rows["entropy"][pick]])

    generator = np.random.default_rng(seed)
    samples = [np.arange(n), *[generator.integers(n, size=n) for _ in range(RESAMPLES)]]
    table: list[list[str]] = [[name] for name in names]
    for text in ("masked", "whole"):
        for given in (None, False, True):
            found = []
            for pick in samples:
                controls = None if given is None else controls_of(rows, pick, given)
                found.append(correlations(columns(pick, text), rows["information"][pick], controls))
            for line, cell in zip(table, with_interval(found[0], np.array(found[1:])), strict=True):
                line.append(cell)
    for line, columns_without in ((table[-2], (2, 3, 4, 5, 6)), (table[-1], (3, 4, 5, 6))):
        for column in columns_without:
            line[column] = "-"
    given_text = ["given distance", "and entropy"]
    heads = ["attention, or else", "both masked", *given_text, "whole text", *given_text]
    widths = [max(len(row[i]) for row in [heads, *table]) for i in range(len(heads))]
    print("| " + " | ".join(h.ljust(w) for h, w in zip(heads, widths, strict=True)) + " |")
    print("| " + " | ".join("-" * w for w in widths) + " |")
    for line in table:
        print("| " + " | ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)) + " |")
    print("\ndistance  pairs  median nats  mean nats")
    for distance in np.unique(rows["distance"]):
        part = rows["information"][rows["distance"] == distance]
        print(f"{distance:8.0f} {len(part):6d} {np.median(part):12.4f} {part.mean():10.4f}")


def main() -> None:
    """Measure, print, and save where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="sentences, one per line")
    for name, default in (("pairs", 300), ("candidates", 128), ("furthest", 8), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--joint", default="pseudo_gibbs")
    parser.add_argument("--model")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--save", type=Path, help="write what was measured to this file (.json)")
    options = parser.parse_args()
    from transformers import AutoModelForMaskedLM
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()

    model = MaskedLM.load(options.model, device=options.device)
    where = options.model or english_model_path()
    network = AutoModelForMaskedLM.from_pretrained(where, attn_implementation="eager", dtype=torch.float32)
    network = network.to(model.device).eval()
    begin, rows = time.monotonic(), []
    for ids, a, b in choose_pairs(options.data, model, options.pairs, options.furthest, options.seed):
        masked = [model.mask_id if t in (a, b) else token for t, token in enumerate(ids)]
        cloze = Cloze(tuple(masked), (a, b), (ids[a], ids[b]))
        found = pair_matrix(model, cloze, options.candidates, "text", options.joint)
        rows.append(
            {
                "information": float(found.information[0, 1]),
                "mass": float(found.mass[0, 1]),
                "entropy": smaller_entropy(model, cloze),
                "distance": b - a,
                "length": len(ids) - 2,
                "masked": attention(network, masked, a, b).tolist(),
                "whole": attention(network, ids, a, b).tolist(),
            }
        )
    arrays = {name: np.array([row[name] for row in rows], dtype=np.float64) for name in rows[0]}
    print(
        f"{len(rows)} pairs, {options.candidates} tokens per position, {options.joint} joints, {model.device}, "
        f"{time.monotonic() - begin:.0f} s; candidates hold {np.median(arrays['mass']):.1%} of a product joint (median), "
        f"mutual information {np.median(arrays['information']):.4f} nats (median), {arrays['information'].mean():.3f} (mean)\n"
    )
    if options.save:
        options.save.write_text(
            json.dumps({"begun": provenance(), "options": {k: str(v) for k, v in vars(options).items()}, "pairs": rows})
        )
    report(arrays, arrays["masked"].shape[1], options.seed)


if __name__ == "__main__":
    main()
