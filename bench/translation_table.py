"""German to English with a masked language model: every decoder and kernel on one table, with
and without distillation.

    python bench/translation_table.py DATA --out RESULTS --seconds 570

DATA holds train.de, train.en, val.*, test_2016_flickr.* (Multi30k). One command trains the
autoregressive model, a masked model of the same shape, and one on the first one's translations,
each in its share of the time; measures on val.* by what the best of five lengths is taken;
translates the test set in all ways; and writes table.md, table.json and, as they come, the
translations. A fourth model also learns to correct its own output (refinement). What is not
done by the end of the time is left out of the table. Rows are made side by side; `--part
timing:masked` and `--part timing:causal`, on an idle device, time the main ones alone.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

ONE_STEP = {"decoder": "mask-predict", "passes": 1}
ROWS: dict[str, dict[str, Any]] = {
    "mask-predict 10": {"decoder": "mask-predict", "passes": 10},
    "one step": {"decoder": "mask-predict", "passes": 1},
    "mask-predict 4": {"decoder": "mask-predict", "passes": 4},
    "mask-predict 2": {"decoder": "mask-predict", "passes": 2},
    "confidence 10": {"decoder": "confidence", "passes": 10},
    "entropy-bound 0.5": {"decoder": "entropy-bound", "gamma": 0.5},
    "MH norm": {"kernel": "mh", "energy": "norm", "sweeps": 5, **ONE_STEP},
    "always-accept 1.0": {"kernel": "gibbs", "sweeps": 10, "proposal_temperature": 1.0, **ONE_STEP},
    "MH norm from mask-predict 10": {"kernel": "mh", "energy": "norm", "sweeps": 5},
    "MH raw from mask-predict 10": {"kernel": "mh", "energy": "raw", "sweeps": 5},
    "MH raw": {"kernel": "mh", "energy": "raw", "sweeps": 5, **ONE_STEP},
    "block MH (product)": {"kernel": "block", "sweeps": 5, "block_size": 2, **ONE_STEP},
    "always-accept 0.5": {"kernel": "gibbs", "sweeps": 10, "proposal_temperature": 0.5, **ONE_STEP},
    "always-accept 0.8": {"kernel": "gibbs", "sweeps": 10, "proposal_temperature": 0.8, **ONE_STEP},
    "always-accept 1.0 from mask-predict 10": {
        "kernel": "gibbs",
        "sweeps": 10,
        "proposal_temperature": 1.0,
    },
    "block MH (sequential)": {
        "kernel": "sequential-block",
        "sweeps": 5,
        "block_size": 2,
        **ONE_STEP,
    },
}
"""In the order in which they are made; every `workers`-th by one process."""
REVISED: dict[str, dict[str, Any]] = {
    "mask-predict 10": {"decoder": "mask-predict", "passes": 10},
    "revise 10": {"decoder": "revise", "passes": 10},
    "revise 2": {"decoder": "revise", "passes": 2},
    "one step": {"decoder": "mask-predict", "passes": 1},
    "revise 4": {"decoder": "revise", "passes": 4},
}
"""Of the model that learned to correct its own output."""
AUTOREGRESSIVE = {
    "greedy": {"decoder": "beam", "beam": 1},
    "beam 5": {"decoder": "beam", "beam": 5},
}
WAYS = {"causal": AUTOREGRESSIVE, "masked": ROWS, "distilled": ROWS, "refined": REVISED}
"""The models, and the ways that each translates."""
ORDER = [(model, name) for model, ways in WAYS.items() for name in ways]
"""Of the rows in the table."""
TIMED = (
    "mask-predict 10",
    "one step",
    "mask-predict 4",
    "MH norm from mask-predict 10",
    "always-accept 1.0",
    *AUTOREGRESSIVE,
)
"""Ways that are timed alone."""
BASELINE = "mask-predict 10"
LENGTHS = 5
"""Lengths that are tried for each source."""
LIKELIEST = 4
"""Tokens of a site whose effect on its neighbour is measured."""


def main() -> None:
    """Train, translate and make the table; or one part of that."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--work", type=Path, help="models and cache; by default beside the results")
    parser.add_argument("--seconds", type=float, default=570)
    parser.add_argument(
        "--end", type=float, help="of a part: when to begin nothing new, as a time of the clock"
    )
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--vocab", type=int, default=8192)
    parser.add_argument("--max-length", type=int, default=112)
    parser.add_argument("--batch-tokens", type=int, default=16384)
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--lr", type=float, default=2.5e-3)
    parser.add_argument("--dtype", default="float16")
    parser.add_argument(
        "--workers", type=int, default=5, help="processes that make rows, for each model"
    )
    parser.add_argument(
        "--part",
        help=(
            "train, choose, dependence, scores, ordering or timing:MODEL, rows:MODEL:WORKER, or"
            " differences"
        ),
    )
    given = parser.parse_args()
    given.work = given.work or given.out / "work"
    given.end = given.end or time.time() + given.seconds
    given.out.mkdir(parents=True, exist_ok=True)
    given.work.mkdir(parents=True, exist_ok=True)
    if given.part is None:
        Table(given).run()
        return
    kind, _, rest = given.part.partition(":")
    model, _, name = rest.partition(":")
    parts = {
        "train": train,
        "choose": choose,
        "dependence": dependence,
        "scores": scores,
        "rows": rows,
        "ordering": ordering,
        "timing": timing,
        "differences": differences,
    }
    parts[kind](given, model, name)


def left(given: argparse.Namespace) -> float:
    """Seconds until the end."""
    return float(given.end - time.time())


class Table:
    """Runs the parts as processes of their own, and collects what they leave. None is killed:
    each ends by itself in time.
    """

    def __init__(self, given: argparse.Namespace) -> None:
        self.given = given

    def run(self) -> None:
        """Two chains of parts side by side: the masked and the refined model; the
        autoregressive and the distilled one.
        """
        self.together(self.masked_model, self.distilled_model)
        collect(self.given, ORDER)
        differences(self.given)
        for model in ("masked", "distilled"):
            ordering(self.given, model, "")

    def masked_model(self) -> None:
        """Train on the corpus itself, choose, and translate; go on to a model that also
        corrects its own output.
        """
        self.part("train:masked")
        self.part("choose:masked")
        self.together(lambda: self.rows("masked"), self.refined_model)

    def distilled_model(self) -> None:
        """Train the teacher, then on its translations, and translate with both."""
        self.part("train:causal")
        self.together(lambda: self.part("rows:causal:0"), lambda: self.part("train:distilled"))
        self.together(lambda: self.rows("distilled"), lambda: self.part("choose:distilled"))

    def refined_model(self) -> None:
        """From the masked model, one that also corrects its own output, and its translations."""
        self.part("train:refined")
        self.together(
            *[
                partial(self.part, f"rows:refined:{worker}")
                for worker in range(workers("refined", self.given))
            ]
        )

    def rows(self, model: str) -> None:
        """All rows of one model, and what is measured besides."""
        names = [f"rows:{model}:{worker}" for worker in range(self.given.workers)]
        self.together(
            *[
                partial(self.part, name)
                for name in (*names, f"dependence:{model}", f"scores:{model}")
            ]
        )

    def together(self, *parts: Callable[[], None]) -> None:
        """Several parts side by side."""
        with ThreadPoolExecutor(len(parts)) as pool:
            for future in [pool.submit(part) for part in parts]:
                future.result()

    def part(self, name: str) -> None:
        """One part, told with its time; nothing where no time is left."""
        if left(self.given) < LEAST:
            print(f"{name}: no time left", flush=True)
            return
        given, since = vars(self.given), time.monotonic()
        words = [sys.executable, __file__, str(given["data"]), "--part", name]
        for key, value in given.items():
            if key not in ("data", "part"):
                words += [f"--{key.replace('_', '-')}", str(value)]
        code = subprocess.run(words).returncode
        print(
            f"{name}: {time.monotonic() - since:.1f} s, exit {code}, {left(self.given):.0f} s left",
            flush=True,
        )


LEAST = 20
"""Seconds that a part needs at least."""
MASKED = {"dropout": 0.2, "mask_source": 0.1}
MODELS: dict[str, dict[str, Any]] = {
    "causal": {"objective": "causal", "dropout": 0.3, "label_smoothing": 0.1},
    "masked": MASKED,
    "distilled": MASKED,
    "refined": {**MASKED, "refinement": 1.0, "lr": 1e-3, "warmup": 50, "vocab": None},
}
"""Settings of each training, chosen on val.*; the refined model goes on from the masked one."""
SHARES = {"causal": 0.15, "masked": 0.26, "distilled": 0.20, "refined": 0.05}
"""Of the time, for each training."""
EPOCHS = {"causal": 45, "masked": 160, "distilled": 160, "refined": 40}
"""The most of each, whatever the time."""
TRIAL = 150
"""Steps that the speed is measured in."""


def train(given: argparse.Namespace, model: str, _: str) -> None:
    """Train one model for its share of the time: a trial, whose compiled code is kept, tells
    how many steps fit into it.
    """
    import unmask
    from unmask.common.border.options import arguments

    corpus = (given.data / "train.de", given.data / "train.en")
    options: dict[str, Any] = {
        "layers": given.layers,
        "width": given.width,
        "heads": given.width // 64 or 1,
        "vocab": given.vocab,
        "max_length": given.max_length,
        "batch_tokens": given.batch_tokens,
        "lr": given.lr,
        "warmup": 400,
        "valid_share": 0.005,
        **MODELS[model],
    }
    if model == "refined":
        options["init"] = given.work / "masked"
    share = min(SHARES[model] * given.seconds, left(given) - 2 * LEAST)
    options = {name: value for name, value in options.items() if value is not None}
    trial = unmask.train(
        **arguments(
            unmask.train,
            {**options, "parallel": corpus, "out": given.work / f"{model}-trial", "steps": TRIAL},
        )
    )
    speeds = trial.to_frame()["tokens_per_second"].dropna()
    per_second = float(speeds.iloc[len(speeds) // 2 :].median()) / options["batch_tokens"]
    epoch = trial.tokens / options["batch_tokens"]
    steps = int(max(100, min(per_second * share, EPOCHS[model] * epoch)))
    print(
        f"{model}: {per_second:.1f} steps per second, {steps} steps, {steps / epoch:.0f} epochs",
        flush=True,
    )
    since = time.monotonic()
    if model == "distilled":
        teacher = unmask.translate(
            corpus[0], model=_loaded(given, "causal"), decoder=unmask.Beam(beam=5)
        )
        corpus, options["tokenizer"] = (lines(corpus[0]), teacher.texts), given.work / "causal"
        options.pop("vocab")
    options |= {
        "parallel": corpus,
        "out": given.work / model,
        "steps": steps,
        "max_minutes": 1.35 * share / 60,
    }
    made = unmask.train(**arguments(unmask.train, options))
    print(f"{made}, {time.monotonic() - since:.1f} s, {made.n_parameters:,} parameters", flush=True)
    keep(
        given,
        f"train-{model}",
        {**made.to_dict(), "epochs": steps / epoch, "seconds": time.monotonic() - since},
    )


def choose(given: argparse.Namespace, model: str, _: str) -> None:
    """On val.*: by what the best of five lengths is best taken, and what lengths are worth at
    all.
    """
    from unmask.studies.translation.masked_pairs import PairModel

    pair = PairModel.load(given.work / model, dtype=given.dtype)
    told = choices(
        pair, *(lines(given.data / f"val.{side}", given.sentences) for side in ("de", "en"))
    )
    keep(given, f"choose-{model}", told)
    print(model, told, flush=True)


def rows(given: argparse.Namespace, model: str, worker: str) -> None:
    """Some ways to translate the test set, one after the other."""
    from unmask.studies.translation.masked_pairs import PairModel

    loaded = _loaded(given, model)
    longest = float(LEAST)
    for name in list(WAYS[model])[int(worker) :: workers(model, given)]:
        if left(given) < longest:
            print(f"{model} {name}: no time left", flush=True)
            continue
        since = time.monotonic()
        found, sources = _translated(given, model, loaded, name)
        told = {**found.to_dict(), "sources": sources}
        if isinstance(loaded, PairModel):
            note_norm_energies(loaded, told)
            for one in told["translations"]:
                del one["tokens"]
        del told["sources"]
        keep(given, f"row-{model}-{name}", told)
        longest = max(longest, time.monotonic() - since)
        print(f"{model} {name}: {longest:.0f} s, {found.measures}", flush=True)


def workers(model: str, given: argparse.Namespace) -> int:
    """Processes that make a model's rows."""
    return {"causal": 1, "refined": 2}.get(model, given.workers)


def timing(given: argparse.Namespace, model: str, _: str) -> None:
    """Seconds per sentence of the main ways, loading apart, the first time and once more;
    nothing else should run.
    """
    loaded, found = _loaded(given, model), {}
    for name in (name for name in TIMED if name in WAYS[model]):
        found[name] = [
            _translated(given, model, loaded, name)[0].measures.seconds for _ in range(2)
        ]
        print(
            f"{model} {name}: {found[name][0]:.5f}, then {found[name][1]:.5f} s per sentence",
            flush=True,
        )
        keep(given, f"timing-{model}", found)


def _loaded(given: argparse.Namespace, model: str) -> Any:
    """What `unmask.translate` takes as a model."""
    from unmask.studies.translation.recipe import load_translator

    folder = given.work / model
    return load_translator(folder, dtype=given.dtype)


def _translated(
    given: argparse.Namespace, model: str, loaded: Any, name: str
) -> tuple[Any, list[str]]:
    """The test set, translated in one of the ways, and its sources."""
    import unmask
    from unmask.common.border.options import arguments

    sources, references = (
        lines(given.data / f"test_2016_flickr.{side}", given.sentences) for side in ("de", "en")
    )
    return (
        unmask.translate(
            sources,
            reference=references,
            model=loaded,
            **arguments(unmask.translate, WAYS[model][name]),
        ),
        sources,
    )


def note_norm_energies(pair: Any, told: dict[str, Any]) -> None:
    """The norm energy of all rows, those that were sampled with another energy too, so that
    they compare.
    """
    from unmask.studies.translation.drafts import Draft, Drafting

    if told["settings"]["energy"] == "norm":
        return
    sources = pair.spelling.encode(told["sources"])
    drafts = [
        Draft(tuple(source), one["length"], 0.0, tuple(one["tokens"]))
        for source, one in zip(sources, told["translations"], strict=True)
    ]
    found = Drafting(pair, 0).energies(drafts, "norm")
    for one, energy in zip(told["translations"], found, strict=True):
        one["energy"] = energy
    told["measures"]["energy"] = sum(found) / len(found)


def scores(given: argparse.Namespace, model: str, _: str) -> None:
    """Energies of the references, and of the autoregressive model's translations, under a
    masked model.
    """
    from unmask.studies.translation.drafts import Draft, Drafting
    from unmask.studies.translation.masked_pairs import PairModel

    pair = PairModel.load(given.work / model, dtype=given.dtype)
    sources = [
        tuple(one)
        for one in pair.spelling.encode(lines(given.data / "test_2016_flickr.de", given.sentences))
    ]
    told = {
        "reference": pair.spelling.encode(
            lines(given.data / "test_2016_flickr.en", given.sentences)
        )
    }
    for name in AUTOREGRESSIVE:
        path = given.out / f"row-causal-{name}.json"
        if path.exists():
            told[name] = [one["tokens"] for one in json.loads(path.read_text())["translations"]]
    found = {}
    for name, texts in told.items():
        drafts = [
            Draft(source, len(tokens), 0.0, tuple(tokens))
            for source, tokens in zip(sources, texts, strict=True)
            if 0 < len(tokens) <= pair.layout.longest_target
            and not set(tokens) & set(pair.model.special_ids)
        ]
        drafting = Drafting(pair, 0)
        found[name] = {
            "norm": drafting.energies(drafts, "norm"),
            "raw": drafting.energies(drafts, "raw"),
            "any-order": drafting.log_probs(drafts),
        }
        found[name]["length"] = [draft.length for draft in drafts]
    keep(given, f"scores-{model}", found)


def dependence(given: argparse.Namespace, model: str, _: str) -> None:
    """Neighbouring sites of all-blank translations: how much one tells of the other, and
    whether one step stutters there.

    I(i, i + 1) = sum_v p(v) KL(q_{i+1}(. | x_i = v) || q_{i+1}),
            v over the likeliest tokens of i, p renormalised over them
    """
    import torch

    from unmask.studies.translation.masked_pairs import PairModel

    pair = PairModel.load(given.work / model, dtype=given.dtype)
    sources = pair.spelling.encode(lines(given.data / "test_2016_flickr.de", given.sentences))
    pairs: list[list[float]] = []
    for source, ((length, _log),) in zip(sources, pair.likely_lengths(sources, 1), strict=True):
        if length < 2 or left(given) < 5:
            continue
        first = pair.layout.source_length
        blank = torch.tensor([pair.layout.template(source, length)], device=pair.model.device)
        sites = torch.arange(first, first + length, device=blank.device)
        alone = pair.model.logits(blank, sites.unsqueeze(0))[0].double().log_softmax(-1)
        likely = alone[:-1].topk(LIKELIEST)
        rows = blank.repeat(LIKELIEST * (length - 1), 1)
        where = sites[:-1].repeat_interleave(LIKELIEST)
        rows[torch.arange(len(rows), device=rows.device), where] = likely.indices.flatten()
        told = (
            pair.model.logits(rows, where.unsqueeze(1) + 1)[:, 0]
            .double()
            .log_softmax(-1)
            .view(length - 1, LIKELIEST, -1)
        )
        apart = (told.exp() * (told - alone[1:].unsqueeze(1))).sum(-1)
        information = (likely.values.softmax(-1) * apart).sum(-1)
        best = alone.argmax(-1)
        entropy = -(alone.exp() * alone).sum(-1)
        stutter = (best[1:] == best[:-1]).double()
        pairs += torch.stack([information, stutter, entropy[:-1], entropy[1:]], 1).tolist()
    keep(given, f"dependence-{model}", summary_of(pairs))


def choices(
    pair: Any, sources: Sequence[str], references: Sequence[str], steps: int = 10
) -> dict[str, Any]:
    """BLEU of mask-predict by each choice among five lengths, at the likeliest and at the
    reference's length; and more.

    "length is right": how often the likeliest length, or one of the five, is the reference's.
    "nats per token" is -log p of the references by one random order each, given their lengths.
    "stutter" is that of the texts chosen by norm, per token.
    """
    from sacrebleu.metrics import BLEU

    from unmask.sampling.chains.convergence import stutter_rate
    from unmask.sampling.decoders.mask_predict import MaskPredict
    from unmask.studies.translation.drafts import Draft, Drafting

    ids = [tuple(one) for one in pair.spelling.encode(sources)]
    wanted = [tuple(one)[: pair.layout.longest_target] for one in pair.spelling.encode(references)]
    decoder = MaskPredict(passes=steps, temperature=0.0)
    drafting = Drafting(pair, 0)

    def bleu(chosen: Sequence[Draft]) -> float:
        return float(
            BLEU()
            .corpus_score(
                [pair.spelling.text(draft.tokens) for draft in chosen], [list(references)]
            )
            .score
        )

    told = [
        Draft(source, len(target), 0.0, target) for source, target in zip(ids, wanted, strict=True)
    ]
    spelled = [draft for draft in told if not set(draft.tokens) & set(pair.model.special_ids)]
    nats = -sum(drafting.log_probs(spelled)) / sum(draft.length for draft in spelled)
    found = {
        "the reference's length": bleu(
            drafting.run([Draft(d.source, d.length) for d in told], decoder, "norm")
        )
    }
    likely = pair.likely_lengths(ids, LENGTHS)
    drafts = [Draft(source, *one) for i, source in enumerate(ids) for one in likely[i]]
    drafts = drafting.run(drafts, decoder, "norm")
    found["likeliest length"] = bleu(drafts[::LENGTHS])
    right = [draft.length == len(wanted[i // LENGTHS]) for i, draft in enumerate(drafts)]
    groups = range(0, len(drafts), LENGTHS)
    exact = {
        "first": sum(right[::LENGTHS]) / len(ids),
        "five": sum(any(right[i : i + LENGTHS]) for i in groups) / len(ids),
    }
    stutter = 0.0
    for score in ("norm", "any-order", "raw"):
        values = drafting.scores(drafts, score)  # type: ignore[arg-type]
        sign = -1 if score == "any-order" else 1
        for per_token in (True, False):
            cost = [
                (sign * value - draft.log_length) / (draft.length if per_token else 1)
                for value, draft in zip(values, drafts, strict=True)
            ]
            best = [drafts[min(range(i, i + LENGTHS), key=cost.__getitem__)] for i in groups]
            found[f"{score}{' per token' if per_token else ''}"] = bleu(best)
            if score == "norm" and per_token:
                stutter = stutter_rate([list(draft.tokens) for draft in best])
    return {"bleu": found, "length is right": exact, "nats per token": nats, "stutter": stutter}


def keep(given: argparse.Namespace, name: str, value: Any) -> None:
    """Write a result as JSON."""
    (given.out / f"{name}.json").write_text(json.dumps(value, ensure_ascii=False, default=str))


def lines(path: Path, most: int = 10**9) -> list[str]:
    """The first lines of a file."""
    return path.read_text().splitlines()[:most]


def collect(given: argparse.Namespace, order: Sequence[tuple[str, str]]) -> None:
    """table.json and table.md from all rows that are there, with paired bootstrap intervals
    against mask-predict of 10 steps.
    """
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(given.out.glob("row-*.json")):
        found[path.stem.removeprefix("row-")] = json.loads(path.read_text())
    table, references = [], lines(given.data / "test_2016_flickr.en", given.sentences)
    for model, name in order:
        key = f"{model}-{name}"
        if key not in found:
            continue
        baseline = found.get(f"{'distilled' if model == 'causal' else model}-{BASELINE}")
        table.append(
            {
                "model": model,
                "row": name,
                **found[key]["measures"],
                **bootstrap(references, found[key], baseline),
            }
        )
    keep(given, "table", table)
    heading = (
        "model | decoding | BLEU | 95 % | against mask-predict 10 | chrF | energy | accepted |"
        " novel"
    )
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
    against = (
        f"{one['gain']:+.2f} ({one['gain_low']:+.2f} to {one['gain_high']:+.2f})"
        if one.get("gain") is not None
        else ""
    )
    energy = "" if one["energy"] is None else f"{one['energy']:.2f}"
    return [
        one["model"],
        one["row"],
        f"{one['bleu']:.2f}",
        interval,
        against,
        f"{one['chrf']:.2f}",
        energy,
        share(one["accepted"]),
        share(one["novel"]),
        share(one["stutter"], 2),
        share(one["stuttering"]),
        f"{one['passes']:.0f}",
        f"{one['seconds']:.4f}",
    ]


def bootstrap(
    references: Sequence[str],
    one: dict[str, Any],
    baseline: dict[str, Any] | None,
    times: int = 1000,
) -> dict[str, Any]:
    """95 % intervals of BLEU, and of its difference from the baseline on the same resampled
    sentences (Koehn 2004).
    """
    import numpy as np
    from sacrebleu.metrics import BLEU

    def counts(found: dict[str, Any]) -> Any:
        if "counts" not in found:
            bleu, texts = BLEU(effective_order=True), [row["text"] for row in found["translations"]]
            stats = [
                bleu.sentence_score(text, [reference])
                for text, reference in zip(texts, references, strict=True)
            ]
            found["counts"] = np.array(
                [[s.sys_len, s.ref_len, *s.counts, *s.totals] for s in stats]
            )
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
        found |= {
            "gain": point,
            "gain_low": float(np.percentile(gains, 2.5)),
            "gain_high": float(np.percentile(gains, 97.5)),
        }
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
    """BLEU of one row minus that of another, on the same resampled sentences, from rows that
    are there.
    """
    found, references = [], lines(given.data / "test_2016_flickr.en", given.sentences)
    for names in PAIRS:
        paths = [given.out / f"row-{name}.json" for name in names]
        if all(path.exists() for path in paths):
            one, other = (json.loads(path.read_text()) for path in paths)
            told = bootstrap(references, one, other)
            found.append({"row": names[0], "minus": names[1], **told})
            print(
                f"{names[0]} minus {names[1]}: {told['gain']:+.2f} ({told['gain_low']:+.2f} to"
                f" {told['gain_high']:+.2f})",
                flush=True,
            )
    keep(given, "differences", found)


def ordering(given: argparse.Namespace, model: str, _: str) -> None:
    """Whether energies order translations as references do: between ways to decode, and between
    translations of one sentence.

    Of two ways' different translations of a sentence, how often the one with the lower energy
    (per token) has the higher chrF.
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
        quality.append(
            [
                chrf.sentence_score(one["text"], [wanted]).score
                for one, wanted in zip(rows_, references, strict=True)
            ]
        )
        texts.append([one["text"] for one in rows_])
        bleu.append(told["measures"]["bleu"])
    if len(bleu) < 2:
        return
    found: dict[str, Any] = {
        "ways": len(bleu),
        "spearman of mean energy and BLEU": spearmanr(np.mean(energy, 1), bleu).statistic,
    }
    for name, table in (("energy", np.array(energy)), ("energy per token", np.array(per_token))):
        agree = pairs = 0
        for a in range(len(table)):
            for b in range(a):
                differ = np.array([x != y for x, y in zip(texts[a], texts[b], strict=True)])
                gap, gain = (
                    (table[a] - table[b])[differ],
                    (np.array(quality[a]) - np.array(quality[b]))[differ],
                )
                decided = (gap != 0) & (gain != 0)
                pairs += int(decided.sum())
                agree += int(((gap < 0) == (gain > 0))[decided].sum())
        found[f"lower {name} is better"] = {"share": agree / max(1, pairs), "pairs": pairs}
    keep(given, f"ordering-{model}", found)
    print(model, found, flush=True)


def summary_of(pairs: Sequence[Sequence[float]]) -> dict[str, Any]:
    """Stutter by tenths of measured dependence, its mean where there is and is no stutter, and
    the area under the curve.
    """
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
        name: float(information[where].mean()) if where.any() else None
        for name, where in (("yes", stutter), ("no", ~stutter))
    }
    return {
        "neighbours": len(table),
        "stutter": float(stutter.mean()),
        "mean information": means,
        "area": float(area),
        "tenths": tenths,
    }


if __name__ == "__main__":
    main()
