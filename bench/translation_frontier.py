"""Passes against nats per token, and against BLEU, of every decoder with a law that translates
with a masked model.

    python bench/translation_frontier.py MODEL test.de test.en --out RESULTS --valid val.de val.en
    python bench/translation_frontier.py MODEL test.de test.en --out RESULTS --bleu [--share 0/4
        --seconds 300]
    python bench/translation_frontier.py MODEL test.de test.en --out RESULTS --rounds
        [--sentences 500]

MODEL is a folder of `unmask train --parallel`. The first command measures the model's
dependence profile on the validation pairs (sources are seen, sites are the tokens of targets)
and stores it in MODEL, where decoders find it. Then the law of each decoder on the references,
given source and length:

    nats      mean over texts of -log law(y | s, L) / L
    entropy   mean over texts of the mean entropy of the conditionals that the tokens were drawn
              from

at numbers of passes, at bounds, and at one token per pass. The second command translates at
temperature 0, each source at its five likeliest lengths. One JSON line per case is written as
it is ready; a case that RESULTS has is not computed again. `--share I/N` takes every N-th case,
for N processes side by side. The table is printed at the end, from all lines that are there.

The third command translates sources that the model has room for, each at its likeliest length,
at temperature 1 and 0: one token per pass in the order of the sets, verified sets, and
mask-predict. It prints rounds and rows per text, nats per token (-log_prob, in a random order),
BLEU with its 95 %, and how many verified texts are those of one token per pass.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor
from translation_table import bootstrap, lines

import unmask
from unmask.runs.fingerprint import content_hash
from unmask.sampling.decoders.revealing import Revealing, law
from unmask.sampling.decoders.verified import Verified
from unmask.sampling.engine.passes import Passes
from unmask.sampling.engine.randomness import ChainStreams
from unmask.sampling.methods import METHODS, with_law
from unmask.sampling.on_target import DecoderOnTarget
from unmask.sampling.target import Target
from unmask.studies.evaluation.frontier import SEQUENTIAL, Point
from unmask.studies.evaluation.frontier_summary import against_best
from unmask.studies.translation.masked_pairs import CPU_ROWS, PairModel
from unmask.tables.conditionals import logit_rows
from unmask.tables.profile import FILE, DependenceProfile
from unmask.tables.profile_measurement import Row, profile_of
from unmask.verbs.study_tables import cell

BOUNDS = {"gamma": (0.1, 0.5, 1.0, 2.0)}
GPU_ROWS = 64
"""Rows of a call: a test set has tens of texts of one length."""
LENGTHS = 5
BASELINE = ("mask-predict", "10")
GREEDY = {"surest first": "lowest-entropy", "random order": "random-sets"}
"""Decoders that fill one token per pass if they are given enough of them."""


@dataclass(frozen=True)
class Case:
    """A decoder and what it is given: a number of passes, a bound, or neither (one token per
    pass).
    """

    decoder: str
    passes: int | None = None
    bound: float | None = None

    @property
    def asked(self) -> str | None:
        """In words."""
        if self.bound is not None:
            return f"{METHODS[self.decoder].limited_by} {self.bound:g}"
        return None if self.passes is None else str(self.passes)

    def build(self, target: Target, passes: Passes) -> DecoderOnTarget:
        """The decoder, for the law."""
        if self.bound is None and self.passes is None:
            return Point(self.decoder, None).build(target, passes)
        if self.bound is None:
            return METHODS[self.decoder].in_parts(self.passes).on(target, passes)
        entry = METHODS[self.decoder]
        made: DecoderOnTarget = entry(**{entry.limited_by: self.bound}).on(target, passes)
        return made

    def options(self, longest: int) -> dict[str, Any]:
        """What `unmask.translate` is given."""
        if self.bound is not None:
            return {
                "decoder": METHODS[self.decoder](**{METHODS[self.decoder].limited_by: self.bound})
            }
        return {
            "decoder": METHODS[GREEDY.get(self.decoder, self.decoder)].in_parts(
                self.passes or longest
            )
        }


def laws(passes: Sequence[int]) -> list[Case]:
    """One token per pass, numbers of passes, bounds."""
    found = [Case(name) for name in SEQUENTIAL]
    return found + [Case(name, n) for n in passes for name in with_law()] + bounds()


def translations(passes: Sequence[int]) -> list[Case]:
    """The same, as far as `translate` can; mask-predict beside them. All decoders are the same
    with one pass.
    """
    found = [Case(BASELINE[0], int(BASELINE[1])), *(Case(name) for name in GREEDY)]
    names = [*with_law(), BASELINE[0]]
    return (
        found
        + [Case(name, n) for n in passes for name in (names if n > 1 else names[-1:])]
        + bounds()
    )


def bounds() -> list[Case]:
    """Every decoder that takes a bound, at some of them."""
    return [
        Case(name, bound=bound)
        for name in with_law()
        for bound in BOUNDS.get(METHODS[name].bound, ())
    ]


class Pairs:
    """Sources and targets as texts of the model; those that it cannot hold or spell are left
    out (`skipped`).
    """

    def __init__(self, pair: PairModel, sources: Sequence[str], targets: Sequence[str]) -> None:
        self.pair, layout, special = (
            pair,
            pair.layout,
            {*pair.model.special_ids, pair.model.mask_id},
        )
        both = zip(pair.spelling.encode(sources), pair.spelling.encode(targets), strict=True)
        self.kept = [
            (tuple(source), tuple(target))
            for source, target in both
            if 0 < len(source) <= layout.longest_source
            and 0 < len(target) <= layout.longest_target
            and not special & set(target)
        ]
        self.skipped = len(sources) - len(self.kept)
        self.lengths = np.array([len(target) for _, target in self.kept])

    def groups(self) -> Iterator[tuple[list[int], Target, Tensor, Passes]]:
        """Texts with equally long targets, side by side (on a CPU: and equal rooms), by their
        numbers.
        """
        alike: dict[tuple[int, int], list[int]] = {}
        for number, (source, target) in enumerate(self.kept):
            alike.setdefault(
                (len(target), self.pair.in_room(source).layout.source_length), []
            ).append(number)
        on_gpu = self.pair.model.device.type == "cuda"
        for (length, room), numbers in sorted(alike.items()):
            pair = self.pair.in_room(self.kept[numbers[0]][0])
            layout, model = pair.layout, pair.model
            target = Target(
                model, layout.template(self.kept[numbers[0]][0], length), given=range(room)
            )
            passes = Passes(model, GPU_ROWS if on_gpu else CPU_ROWS, form="logits")
            at_once = logit_rows(model, length)
            for start in range(0, len(numbers), at_once):
                some = numbers[start : start + at_once]
                texts = [
                    (*layout.room(self.kept[i][0]), *self.kept[i][1], layout.end) for i in some
                ]
                yield some, target, torch.tensor(texts, device=model.device), passes

    def profile(self, name: str) -> DependenceProfile:
        """The profile of targets whose sources are seen; distances with too few pairs have the
        last value.
        """
        layout = self.pair.layout
        rows = [
            Row(
                ids=[*layout.room(source), *target, layout.end],
                free=[False] * layout.source_length + [True] * len(target) + [False],
            )
            for source, target in self.kept
            if len(target) > 1
        ]
        found = profile_of(self.pair.model, rows, name, skipped=self.skipped)
        missing = layout.longest_target - len(found.by_distance)
        measurement = {**found.measurement, "measured_distances": len(found.by_distance)}
        return replace(
            found,
            by_distance=found.by_distance + found.by_distance[-1:] * missing,
            measurement=measurement,
        )


def law_of(pairs: Pairs, case: Case, seed: int) -> dict[str, Any]:
    """The numbers of a case, with those of each text."""
    found = np.zeros((3, len(pairs.kept)))
    for numbers, target, ids, passes in pairs.groups():
        one = law(case.build(target, passes), ids, ChainStreams(seed, numbers, ids.device).at(0, 0))
        found[:, numbers] = (
            torch.stack([-one.log_q.mean(1), one.entropy.mean(1), one.passes.double()])
            .cpu()
            .numpy()
        )
    each = dict(zip(("nats", "entropy", "passes"), found.round(5).tolist(), strict=True))
    return {**{name: float(np.mean(values)) for name, values in each.items()}, "each": each}


def translated(
    pair: PairModel, case: Case, sources: Sequence[str], references: Sequence[str], seed: int
) -> dict[str, Any]:
    """Measures of the translations, their texts, and the passes that decoding one draft took."""
    made = unmask.translate(
        sources,
        reference=references,
        model=pair,
        length_beam=LENGTHS,
        seed=seed,
        **case.options(pair.layout.longest_target),
    )
    drafts = pair.likely_lengths([ids for ids in pair.spelling.encode(sources) if ids], LENGTHS)
    scored = sum(length for likely in drafts for length, _ in likely)
    assert made.measures is not None
    passes = (sum(row["passes"] for row in made.rows) - scored) / (LENGTHS * len(drafts))
    rows = [{"text": row["text"]} for row in made.rows]
    return {
        **asdict(made.measures),
        "all_passes": made.measures.passes,
        "passes": passes,
        "translations": rows,
    }


@contextmanager
def counted_rounds(one_by_one: bool) -> Iterator[list[int]]:
    """A list of the rounds of all texts that verified sets decode; `one_by_one`: in one token
    per pass, in the same order.
    """
    rounds, step = [], Revealing.step if one_by_one else Verified.step

    def counting(self: Verified, on: Any, state: Any, rng: Any) -> Any:
        before = int(state.rounds.sum())
        state, passes = step(self, on, state, rng)
        rounds.append(int(passes.sum()) if one_by_one else int(state.rounds.sum()) - before)
        return state, passes

    with patch.object(Verified, "step", counting):
        yield rounds


def in_rounds(
    pair: PairModel,
    sources: Sequence[str],
    references: Sequence[str],
    sets: Sequence[int],
    seed: int,
) -> str:
    """The table of the third command."""
    rows = [["temperature", "method", "rounds", "rows", "nats per token", "BLEU", "equal texts"]]
    for temperature in (1.0, 0.0):
        heat, alone = {"temperature": temperature}, {}
        cases = [(name, n) for n in sets for name in ("one by one", "verified")] + [
            ("mask-predict", n) for n in (4, 10)
        ]
        for name, n in cases:
            kind: Any = unmask.MaskPredict if name == "mask-predict" else unmask.Verified
            with counted_rounds(name == "one by one") as rounds:
                made = unmask.translate(
                    sources,
                    reference=references,
                    model=pair,
                    length_beam=1,
                    seed=seed,
                    decoder=kind.in_parts(n, **heat),
                )
            texts = [row for row in made.rows if row["text"]]
            passes = sum(row["passes"] for row in texts) / len(texts)
            nats = -sum(row["log_prob"] for row in texts) / sum(row["length"] for row in texts)
            apart = bootstrap(references, {"translations": made.rows}, None)
            assert made.measures is not None
            if name == "one by one":
                alone[n] = made.texts
            equal = (
                sum(a == b for a, b in zip(made.texts, alone[n], strict=True))
                if name == "verified"
                else None
            )
            rows.append(
                [
                    f"{temperature:g}",
                    f"{name} {n}" if kind is unmask.MaskPredict else f"{name}, {n} sets",
                    f"{sum(rounds) / len(texts) if rounds else passes:.1f}",
                    f"{passes:.1f}",
                    f"{nats:.3f}",
                    f"{made.measures.bleu:.2f} [{apart['low']:.1f}, {apart['high']:.1f}]",
                    "" if equal is None else f"{equal} of {len(made.texts)}",
                ]
            )
            print(*rows[-1], sep="  ", flush=True)
    return table(rows)


def law_table(found: Sequence[Mapping[str, Any]], seed: int) -> str:
    """Nats per token, with intervals paired by text against the best order of one token per
    pass.
    """
    points = against_best(found, np.array([line["each"]["nats"] for line in found]), seed)
    best = next(point["decoder"] for point in points if point["best"])
    rows = [
        [
            "decoder",
            "given",
            "rounds",
            "rows",
            "nats per token",
            f"minus {best}",
            "entropy per token",
        ]
    ]
    for point in points:
        rows.append(
            [
                point["decoder"],
                point["asked"] or "",
                f"{point['passes']:.1f}",
                f"{point['passes']:.1f}",
                cell(point["nats"], "nats"),
                "0" if point["best"] else cell(point["difference"], "difference"),
                f"{point['entropy']:.3f}",
            ]
        )
    return table(rows)


def bleu_table(found: Sequence[dict[str, Any]], references: Sequence[str]) -> str:
    """BLEU, with paired intervals of its difference from mask-predict of 10 steps."""
    baseline = next((line for line in found if (line["decoder"], line["asked"]) == BASELINE), None)
    rows = [
        ["decoder", "given", "passes", "BLEU", f"minus {' '.join(BASELINE)}", "chrF", "stutter"]
    ]
    for line in found:
        apart = bootstrap(references, line, baseline)
        gain = (
            f"{apart['gain']:+.2f} [{apart['gain_low']:+.2f}, {apart['gain_high']:+.2f}]"
            if "gain" in apart
            else ""
        )
        own = f"{line['bleu']:.2f} [{apart['low']:.1f}, {apart['high']:.1f}]"
        shown = [
            f"{line['passes']:.1f}",
            own,
            gain,
            f"{line['chrf']:.2f}",
            f"{100 * line['stutter']:.2f} %",
        ]
        rows.append([line["decoder"], line["asked"] or "", *shown])
    return table(rows)


def table(rows: Sequence[Sequence[str]]) -> str:
    """Markdown."""
    rule = ["---"] * 2 + ["---:"] * (len(rows[0]) - 2)
    return "\n".join("| " + " | ".join(row) + " |" for row in (rows[0], rule, *rows[1:])) + "\n"


def main() -> None:
    """Measure every case that the folder does not have, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("sources", type=Path)
    parser.add_argument("references", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--valid", type=Path, nargs=2, help="sources and targets that the profile is measured on"
    )
    parser.add_argument("--bleu", action="store_true", help="translate, instead of the law")
    parser.add_argument(
        "--rounds",
        action="store_true",
        help="translate by verified sets and mask-predict, instead of the law",
    )
    parser.add_argument("--passes", default="1,2,3,4,6,8")
    parser.add_argument("--share", default="0/1")
    parser.add_argument("--sentences", type=int, default=10**9)
    parser.add_argument(
        "--seconds", type=float, default=1e9, help="begin nothing new after this time"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--dtype", default="auto")
    given = parser.parse_args()
    since, kind = time.monotonic(), "bleu" if given.bleu else "law"
    given.out.mkdir(parents=True, exist_ok=True)
    pair = PairModel.load(given.model, given.device, given.dtype)
    stored = given.model / FILE
    if given.valid and not stored.exists():
        profile = Pairs(pair, *(lines(path) for path in given.valid)).profile(given.valid[1].name)
        profile.save(stored)
        print(
            f"profile of {profile.n_texts:,} pairs, {time.monotonic() - since:.1f} s:",
            *profile.by_distance[:12],
            flush=True,
        )
    if stored.exists():
        DependenceProfile.load(stored).save(given.out / FILE)
    sources, references = (
        lines(path, given.sentences) for path in (given.sources, given.references)
    )
    if given.rounds:
        sets = [int(n) for n in given.passes.split(",") if int(n) > 1]
        room = [0 < len(ids) <= pair.layout.longest_source for ids in pair.spelling.encode(sources)]
        sources, references = (
            [text for text, fits in zip(some, room, strict=True) if fits]
            for some in (sources, references)
        )
        (given.out / "rounds.md").write_text(
            shown := in_rounds(pair, sources, references, sets, given.seed)
        )
        print(shown)
        return
    pairs = Pairs(pair, sources, references)
    hashed = content_hash("\n".join((*sources, *references)))
    same = {"model": pair.model.fingerprint, "data": hashed, "seed": given.seed}
    part, parts = map(int, given.share.split("/"))
    numbers, all_cases = (
        [int(n) for n in given.passes.split(",")],
        translations if given.bleu else laws,
    )
    known = {(line["decoder"], line["asked"]) for line in kept(given.out, kind, same)}
    with (given.out / f"{kind}-{part}.jsonl").open("a") as stream:
        for case in all_cases(numbers)[part::parts]:
            if (case.decoder, case.asked) in known or time.monotonic() - since > given.seconds:
                continue
            began = time.monotonic()
            found = (
                translated(pair, case, sources, references, given.seed)
                if given.bleu
                else law_of(pairs, case, given.seed)
            )
            line = {
                "decoder": case.decoder,
                "asked": case.asked,
                **same,
                **found,
                "took": round(time.monotonic() - began, 2),
            }
            stream.write(json.dumps(line) + "\n")
            stream.flush()
            measure = "bleu" if given.bleu else "nats"
            print(
                f"{case.decoder:16} {case.asked or '':10} @ {line['passes']:5.2f}  {measure}"
                f" {line[measure]:7.3f}  {line['took']:.1f} s",
                flush=True,
            )
    place = {(case.decoder, case.asked): i for i, case in enumerate(all_cases(sorted(numbers)))}
    done = [
        line for line in kept(given.out, kind, same) if (line["decoder"], line["asked"]) in place
    ]
    done.sort(key=lambda line: place[line["decoder"], line["asked"]])
    if not given.bleu and all(line["asked"] is not None for line in done):
        print("no case of one token per pass is done: no table yet", flush=True)
        return
    shown = bleu_table(done, references) if given.bleu else law_table(done, given.seed)
    count = (
        f"{len(references):,} texts"
        if given.bleu
        else f"{len(pairs.kept):,} texts of {pairs.lengths.mean():.1f} tokens"
    )
    told = (
        f"{count}, {0 if given.bleu else pairs.skipped} left out; model {given.model}.\n\n{shown}"
    )
    (given.out / f"{kind}.md").write_text(told)
    print(told, flush=True)


def kept(folder: Path, kind: str, same: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The lines of all processes that are about the same model and texts."""
    paths = sorted(folder.glob(f"{kind}-*.jsonl"))
    whole = [
        line
        for path in paths
        for line in path.read_text().splitlines(keepends=True)
        if line.endswith("\n")
    ]
    return [line for line in map(json.loads, whole) if same.items() <= line.items()]


if __name__ == "__main__":
    main()
