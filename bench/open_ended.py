"""The open-ended table: every kernel and energy, many chains, judged by a causal model of the
same corpus.

    unmask train corpus.txt --objective causal --tokenizer MODEL --out judge
    python bench/open_ended.py run --judge judge --corpus corpus.txt --starts sentences.txt
        --out OUT [--chains 1024] [--lengths 12,20 --passes 400 --seconds 300 --dtype float16
        --device auto --model FOLDER]
    python bench/open_ended.py report OUT

`run` starts `--chains` chains of each kernel from held-out sentences of exactly the length
asked for, and from ancestral samples of the model, and looks at the texts when the chains have
spent a quarter and all of `--passes` passes on average: equal passes. With the time that is
left the main kernels go on from both kinds of start until the energy has levelled off or the
time is over. Energies of every sweep are kept. Temperatures of the norm energy run at equal
passes from ancestral samples. Everything is written as it comes, texts.jsonl (one line per
look) and energies/*.npy, and the same command goes on with the rows that are not there yet.

`report` prints the tables as Markdown, with ArviZ's rank R-hat of the energy over the second
half of the sweeps.

    judge     nats per token of the causal model, and 95 % of the mean; held-out texts of the
              same length stand beside it
    seen      share of texts whose every trigram of tokens occurs in the corpus
    distinct  different n-grams over all n-grams of the texts
    stutter   share of neighbouring tokens that are equal;   own
              share of tokens that are still the start's
    changed   share of redrawn tokens that changed (novelty);   accepted   of steps
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unmask.models.masked_lm import MaskedLM
from unmask.sampling.chains.convergence import stutters
from unmask.sampling.chains.group_run import Group, MarkovRun
from unmask.sampling.chains.judge import CausalJudge
from unmask.sampling.decoders.ancestral import Ancestral
from unmask.sampling.decoders.decoder import decode
from unmask.sampling.energies.energy import ENERGIES
from unmask.sampling.energies.with_terms import Energy
from unmask.sampling.engine.passes import Passes, rows_for
from unmask.sampling.engine.randomness import ChainStreams
from unmask.sampling.kernels.state import ChainState
from unmask.sampling.methods import METHODS
from unmask.sampling.settings import SampleSettings
from unmask.sampling.target import Target, blank_template

SHARES = (0.25, 1.0)
TEMPERATURES = (0.4, 0.6, 0.7, 0.8, 1.3, 2.0)
EXAMPLES = 3
LONG = 0.4
"""The share of the time that is left to the long runs."""


@dataclass(frozen=True)
class Row:
    """One row of the table: a kernel with its settings."""

    name: str
    kernel: str
    energy: str = "norm"
    temperature: float = 1.0
    options: tuple[tuple[str, Any], ...] = ()

    def settings(self, chains: int, length: int) -> SampleSettings:
        """As `unmask sample` takes them."""
        heated = {} if self.temperature == 1 else {"energy_temperature": self.temperature}
        kernel = METHODS[self.kernel](**heated, **dict(self.options))
        return SampleSettings(
            kernel=kernel,
            energy=ENERGIES[self.energy](),
            chains=chains,
            length=(length,),
            sweeps=10**6,
        )


MAIN = [Row("always accept", "gibbs"), Row("MH norm", "mh"), Row("MH raw", "mh", "raw")]
ROWS = [
    *MAIN,
    Row("product pairs norm", "block"),
    Row("product pairs raw", "block", "raw"),
    Row("sequential pairs norm", "sequential-block"),
    Row("sequential pairs raw", "sequential-block", "raw"),
]
DECODERS = [
    Row("ancestral", "ancestral"),
    Row("mask-predict", "mask-predict"),
    Row("surest first", "confidence"),
]
HEATED = [Row(f"MH norm, T = {t:g}", "mh", "norm", t) for t in TEMPERATURES]
LENGTHY = [
    *MAIN,
    Row("MH norm, T = 0.7", "mh", "norm", 0.7),
    Row("sequential pairs raw", "sequential-block", "raw"),
]


def distinct(texts: list[list[int]], n: int) -> float:
    """Share of n-grams that are different."""
    grams = [tuple(text[i : i + n]) for text in texts for i in range(len(text) - n + 1)]
    return len(set(grams)) / len(grams) if grams else float("nan")


class Corpus:
    """Which trigrams of tokens occur in a text file."""

    def __init__(self, path: Path, model: MaskedLM) -> None:
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        found: list[NDArray[np.int64]] = []
        self.size = model.vocab_size
        for start in range(0, len(lines), 20000):
            rows = model.tokenizer(lines[start : start + 20000], verbose=False)["input_ids"]
            found.append(
                np.unique(
                    np.concatenate(
                        [self._keys(np.array(row[1:-1], dtype=np.int64)) for row in rows]
                    )
                )
            )
        self.known = np.unique(np.concatenate(found))

    def _keys(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        return (ids[..., :-2] * self.size + ids[..., 1:-1]) * self.size + ids[..., 2:]

    def holds(self, texts: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether every trigram of each text occurs."""
        keys = self._keys(texts)
        place = np.searchsorted(self.known, keys).clip(max=len(self.known) - 1)
        return np.asarray((self.known[place] == keys).all(1))


class Bench:
    """The model, the judge and the folder that everything is written to."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.begun = options, time.monotonic()
        self.out = Path(options.out)
        (self.out / "energies").mkdir(parents=True, exist_ok=True)
        self.model = MaskedLM.load(options.model, device=options.device, dtype=options.dtype)
        self.judge = CausalJudge(options.judge, options.device)
        self.corpus = Corpus(options.corpus, self.model)
        self.passes = Passes(self.model, rows_for(self.model, options.chains))
        self.there = {self._key(row) for row in read_looks(self.out)}
        self.note(
            {
                "what": "setup",
                "device": str(self.model.device),
                "dtype": options.dtype,
                "chains": options.chains,
                "trigrams": len(self.corpus.known),
                "seconds": self.left()[0],
            }
        )

    def left(self) -> tuple[float, float]:
        """Seconds since the beginning, and left."""
        spent = time.monotonic() - self.begun
        return spent, self.options.seconds - spent

    def note(self, row: dict[str, Any]) -> None:
        """One line of texts.jsonl."""
        with (self.out / "texts.jsonl").open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(row) + "\n")
        print(
            {key: value for key, value in row.items() if key not in ("examples", "judged")},
            flush=True,
        )

    def has(self, what: str, row: str, length: int, starts: str, share: float = 1.0) -> bool:
        """Whether this look was written before."""
        return (what, row, length, starts, share) in self.there

    def _key(self, row: dict[str, Any]) -> tuple[object, ...]:
        return tuple(row[name] for name in ("what", "row", "length", "starts", "share"))

    def target(self, length: int, energy: str = "norm") -> Target:
        """All texts of a length."""
        return Target(self.model, blank_template(self.model, length), Energy(energy))

    def held_out(self, length: int) -> Tensor:
        """Sentences of exactly so many tokens, each once, as far as there are; then again from
        the first.
        """
        lines = dict.fromkeys(
            line.strip() for line in self.options.starts.read_text(encoding="utf-8").splitlines()
        )
        special, found = set(self.model.special_ids), []
        for line in lines:
            ids = self.model.words.encode(line) if line[:1].isupper() and line.endswith(".") else []
            if len(ids) == length + 2 and not special & set(ids[1:-1]):
                found.append(ids)
        if not found:
            raise SystemExit(
                f"{self.options.starts} has no sentence of {length} tokens: give another length"
            )
        rows = torch.tensor(found, device=self.model.device)
        self.note({"what": "held-out sentences", "length": length, "different": len(found)})
        return rows[torch.arange(self.options.chains, device=rows.device) % len(rows)]

    def ancestral(self, length: int) -> Tensor:
        """Samples of the chain rule in a random order."""
        chains = self.options.chains
        rng = ChainStreams(0, range(chains), self.model.device).at(0, 0)
        return decode(Ancestral(self.target(length), self.passes), chains, rng)[0].ids

    def look(self, ids: Tensor, about: dict[str, Any]) -> None:
        """Judge the texts and write what is found."""
        length = about["length"]
        energies = {}
        for kind in ("norm", "raw"):
            state = ChainState.at(self.target(length, kind), ids)
            state.complete(self.target(length, kind), self.passes, keep=False)
            energies[kind] = state.energy.cpu().numpy() / length
        rows = ids.cpu().numpy()[:, 1:-1].astype(np.int64)
        texts = [self.model.text(row) for row in ids.tolist()]
        judged, listed = self.judge(texts), rows.tolist()
        order = np.argsort(energies["norm"])
        places = [*order[:EXAMPLES], *order[len(order) // 2 :][:EXAMPLES], *order[-EXAMPLES:]]
        seen = self.corpus.holds(rows)
        neighbours = np.array([stutters(row) / (length - 1) for row in listed])
        self.note(
            {
                **about,
                "judge": _mean(judged),
                "norm": _mean(energies["norm"]),
                "raw": _mean(energies["raw"]),
                "correlation": float(np.corrcoef(judged, energies["norm"])[0, 1]),
                "correlation_raw": float(np.corrcoef(judged, energies["raw"])[0, 1]),
                "seen": _mean(seen.astype(float)),
                "stutter": _mean(neighbours),
                "distinct": [distinct(listed, n) for n in (1, 2, 3)],
                "different": len(set(texts)) / len(texts),
                "seconds": round(self.left()[0], 1),
                "examples": [
                    [round(float(energies["norm"][p]), 2), round(float(judged[p]), 2), texts[p]]
                    for p in places
                ],
            }
        )


def read_looks(out: Path) -> list[dict[str, Any]]:
    """The looks that were written so far."""
    path = out / "texts.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [row for row in map(json.loads, lines) if "judge" in row]


def _mean(values: NDArray[np.float64]) -> list[float]:
    """The mean and half of its 95 % interval."""
    return [
        round(float(values.mean()), 4),
        round(1.96 * float(values.std(ddof=1)) / len(values) ** 0.5, 4),
    ]


def chains_of(bench: Bench, row: Row, length: int, starts: Tensor) -> MarkovRun:
    """The chains of one row at their starts."""
    settings = row.settings(len(starts), length)
    target, everyone = bench.target(length, row.energy), list(range(len(starts)))
    kernel = settings.kernel.on(target, bench.passes)
    run = MarkovRun(settings, Group(everyone, target, starts), kernel)
    run.begin()
    return run


def sweeps(
    bench: Bench, run: MarkovRun, seconds: float
) -> Iterator[tuple[float, NDArray[np.float64]]]:
    """Mean passes per chain beyond the start's, and energies, after each sweep, for so many
    seconds.
    """
    begun, before = time.monotonic(), float(run.spent.double().mean())
    while time.monotonic() - begun < seconds and bench.left()[1] > 0:
        run.sweep()
        yield float(run.spent.double().mean()) - before, run.energies().cpu().numpy()


def rates(run: MarkovRun, starts: Tensor) -> dict[str, float]:
    """Shares of steps accepted and tokens changed, and of tokens that are still the start's."""
    steps, accepted, _, changed = run.counts.sum(1).tolist()
    own = float((run.texts() == starts)[:, 1:-1].double().mean())
    return {
        "accepted": accepted / steps,
        "changed": changed / steps,
        "own": own,
        "sweeps": run.done,
    }


def equal_passes(bench: Bench, row: Row, length: int, name: str, starts: Tensor) -> None:
    """The texts at each share of the passes."""
    if bench.has("equal passes", row.name, length, name):
        return
    run, traces, waiting = chains_of(bench, row, length, starts), [], list(SHARES)
    for passes, energies in sweeps(bench, run, 60.0):
        traces.append(energies)
        while waiting and passes >= waiting[0] * bench.options.passes:
            about = {
                "what": "equal passes",
                "row": row.name,
                "length": length,
                "starts": name,
                "share": waiting.pop(0),
            }
            if about["share"] == 1.0 or row in MAIN:
                bench.look(run.texts(), {**about, "passes": passes, **rates(run, starts)})
        if not waiting:
            break
    _keep(bench, f"equal-{row.name}-{length}-{name}", traces)


def _keep(bench: Bench, name: str, traces: list[NDArray[np.float64]]) -> None:
    path = bench.out / "energies" / (name.replace(" ", "_").replace(",", "") + ".npy")
    if traces:
        np.save(path, np.stack(traces, 1).astype(np.float32))


def converge(
    bench: Bench, row: Row, length: int, starts: dict[str, Tensor], seconds: float
) -> None:
    """Half of the chains from each kind of start, for so long; the energies of every sweep and
    the texts at the end.
    """
    if bench.has("long", row.name, length, "half of each"):
        return
    half = bench.options.chains // 2
    mixed = torch.cat([value[:half] for value in starts.values()])
    run, traces, spent = chains_of(bench, row, length, mixed), [], 0.0
    for passes, energies in sweeps(bench, run, seconds):
        traces.append(energies)
        spent = passes
        if len(traces) % 10 == 0:
            _keep(bench, f"long-{row.name}-{length}", traces)
    _keep(bench, f"long-{row.name}-{length}", traces)
    about = {
        "what": "long",
        "row": row.name,
        "length": length,
        "starts": "half of each",
        "share": 1.0,
        "passes": spent,
    }
    bench.look(run.texts(), {**about, **rates(run, mixed)})


def run(options: argparse.Namespace) -> None:
    """Fill the folder, the most telling rows first."""
    bench = Bench(options)
    lengths = [int(length) for length in options.lengths.split(",")]
    starts = {
        length: {"held-out": bench.held_out(length), "ancestral": bench.ancestral(length)}
        for length in lengths
    }
    for length in lengths:
        for name, ids in starts[length].items():
            if not bench.has("start", f"start: {name}", length, name, 0.0):
                about = {
                    "what": "start",
                    "row": f"start: {name}",
                    "length": length,
                    "starts": name,
                    "share": 0.0,
                }
                bench.look(ids, {**about, "passes": 0})
    for length in lengths:
        for name, ids in starts[length].items():
            for row in MAIN:
                equal_passes(bench, row, length, name, ids)
    for length in lengths:
        for row in HEATED:
            equal_passes(bench, row, length, "ancestral", starts[length]["ancestral"])
    for length in lengths:
        decoded(bench, length)
        for name, ids in starts[length].items():
            for row in ROWS[len(MAIN) :]:
                if bench.left()[1] > LONG * options.seconds:
                    equal_passes(bench, row, length, name, ids)
    share = (bench.left()[1] - 5) / (len(LENGTHY) * len(lengths))
    for length in lengths:
        for row in LENGTHY:
            converge(bench, row, length, starts[length], share)


def decoded(bench: Bench, length: int) -> None:
    """The decoders' texts."""
    for row in DECODERS:
        if bench.has("equal passes", row.name, length, "blank"):
            continue
        settings = row.settings(bench.options.chains, length)
        decoder = settings.kernel.on(bench.target(length), bench.passes)
        rng = ChainStreams(0, range(bench.options.chains), bench.model.device).at(1, 0)
        state, passes = decode(decoder, bench.options.chains, rng)
        about = {
            "what": "equal passes",
            "row": row.name,
            "length": length,
            "starts": "blank",
            "share": 1.0,
        }
        bench.look(state.ids, {**about, "passes": float(passes.double().mean())})


def report(options: argparse.Namespace) -> None:
    """The tables as Markdown."""
    from arviz_stats.base import array_stats

    out = Path(options.out)
    rows = read_looks(out)
    for length in sorted({row["length"] for row in rows}):
        print(f"\n### {length} tokens\n")
        print(
            "| | starts | passes | judge | E_norm / T | E_raw / T | seen | stutter | distinct |"
            " accepted | changed | own |"
        )
        print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
        for row in (row for row in rows if row["length"] == length):
            moved = [
                f"{row[name]:.0%}" if name in row else "" for name in ("accepted", "changed", "own")
            ]
            shown = [
                f"{row[name][0]:.3f} ± {row[name][1]:.3f}" for name in ("judge", "norm", "raw")
            ]
            print(
                f"| {row['row']}{', long' if row['what'] == 'long' else ''} | {row['starts']} |"
                f" {row['passes']:.0f} | {' | '.join(shown)} | {row['seen'][0]:.1%} |"
                f" {row['stutter'][0]:.2%} |"
                f" {', '.join(f'{value:.2f}' for value in row['distinct'])} | {' | '.join(moved)} |"
            )
    print(
        "\n### R-hat of the energy, second half of the sweeps\n\n| run | chains | sweeps | R-hat |"
        " mean of each quarter |"
    )
    print("| --- | --- | --- | --- | --- |")
    for path in sorted((out / "energies").glob("*.npy")):
        energies = np.load(path).astype(np.float64)
        second = energies[:, energies.shape[1] // 2 :]
        enough = second.shape[1] >= 4
        r_hat = (
            float(array_stats.rhat(second, method="rank", chain_axis=0, draw_axis=1))
            if enough
            else float("nan")
        )
        quarters = ", ".join(
            f"{part.mean():.2f}" for part in np.array_split(energies, 4, 1) if part.size
        )
        print(
            f"| {path.stem} | {energies.shape[0]} | {energies.shape[1]} | {r_hat:.3f} |"
            f" {quarters} |"
        )
    print("\n### Texts by energy: lowest, middle, highest (energy per token, judge)\n")
    for row in rows:
        if row["share"] in (0.0, 1.0):
            print(
                f"\n{row['row']}, {row['length']} tokens, {row['starts']}, {row['passes']:.0f}"
                f" passes; correlation of judge, energy {row['correlation']:.2f} (norm),"
                f" {row['correlation_raw']:.2f} (raw)\n"
            )
            for energy, judged, text in row["examples"]:
                print(f"    {energy:6.2f} {judged:6.2f}  {text}")


def main() -> None:
    """`run` or `report`."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    running = commands.add_parser("run")
    for name in ("judge", "out"):
        running.add_argument(f"--{name}", required=True)
    for name in ("corpus", "starts"):
        running.add_argument(f"--{name}", type=Path, required=True)
    running.add_argument("--model")
    running.add_argument("--chains", type=int, default=1024)
    running.add_argument("--lengths", default="12,20")
    running.add_argument("--passes", type=int, default=400)
    running.add_argument("--seconds", type=float, default=300.0)
    running.add_argument("--dtype", default="float16")
    running.add_argument("--device", default="auto")
    running.set_defaults(call=run)
    reporting = commands.add_parser("report")
    reporting.add_argument("out")
    reporting.set_defaults(call=report)
    options = parser.parse_args()
    options.call(options)


if __name__ == "__main__":
    main()
