"""The frontier of passes against nats: every decoder with a law as a language model on held-out
texts.

    nats per token of a decoder at n passes = mean over texts of -log law(x) / L
            (`unmask.sampling.decoders.revealing`)

Texts have L tokens, all masked at the start, and q runs over the regular tokens at temperature
1, so each law sums to 1 over the texts of L tokens: the numbers are computed, not estimated,
and comparable. References fill one token per pass: the lowest entropy first ("surest first"),
in a random order (drawn for each text from the seed), from left to right. Differences are from
the best of them, text by text.

Rounds are calls of the network that wait for each other, rows the texts that they see. A pass
is one round of one row. Verified drafts need fewer rounds than their law has passes, and more
rows: both are counted while texts are drawn.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unmask.common.errors import InputError
from unmask.common.files import user_path, write_atomically, write_json, write_table
from unmask.common.results import Result
from unmask.common.signature import checked
from unmask.models.first_look import look_at_first
from unmask.models.load import Model, as_model, model_name
from unmask.models.masked_lm import MaskedLM
from unmask.models.text.text_tokenizer import refuse_too_long
from unmask.runs.fingerprint import content_hash, provenance
from unmask.runs.folder import RunFolder
from unmask.runs.progress import Progress
from unmask.sampling.decoders.decoder import decode, lowest
from unmask.sampling.decoders.revealing import (
    LowestEntropy,
    Observed,
    RandomSets,
    RevealingDecoder,
    law,
)
from unmask.sampling.decoders.verified import Verified, VerifiedState
from unmask.sampling.engine.passes import Passes
from unmask.sampling.engine.randomness import ChainStreams
from unmask.sampling.registry import KERNELS
from unmask.sampling.target import Target, blank_template
from unmask.studies.evaluation.markdown import cell, frame_of, line
from unmask.studies.evaluation.sources import read_texts
from unmask.studies.evaluation.summary import with_intervals
from unmask.tables.conditionals import logit_rows
from unmask.tables.profile import Profile

if TYPE_CHECKING:
    import pandas

    from unmask.common.figures import Figure

KIND = "frontier"
RESAMPLES = 2000
DRAWN = 64
"""Texts that are drawn to count the rounds of a decoder that verifies."""
COUNTED = ("passes", "rounds", "rows")
COLUMNS = {
    "decoder": "string",
    "asked": "int64",
    "text": "int64",
    **dict.fromkeys(COUNTED, "int64"),
    "nats": "float64",
}


@dataclass(frozen=True)
class LeftToRight(RevealingDecoder):
    """One token per pass, from left to right: the order of causal models."""

    def choose(self, observed: Observed) -> Bool[Tensor, "n F"]:
        place = torch.arange(
            observed.blank.shape[1], dtype=torch.float64, device=observed.blank.device
        )
        return lowest(place.expand(observed.blank.shape), observed.blank, 1)


SEQUENTIAL: Mapping[str, type[RevealingDecoder]] = {
    "surest first": LowestEntropy,
    "random order": RandomSets,
    "left to right": LeftToRight,
}
"""One token per pass."""
LINES = {
    "surest first": ("#222222", "-"),
    "random order": ("#777777", "--"),
    "left to right": ("#AAAAAA", ":"),
}


@dataclass(frozen=True)
class Point:
    """A decoder at a number of passes; `passes` None: one token per pass."""

    decoder: str
    passes: int | None

    def build(self, target: Target, passes: Passes) -> RevealingDecoder:
        """The decoder for texts of the target's length."""
        if self.passes is None:
            decoder = SEQUENTIAL[self.decoder]
            return decoder(target, passes, replace(decoder.options, passes=target.sites))
        made: RevealingDecoder = KERNELS[self.decoder](passes=self.passes).on(target, passes)  # type: ignore[call-arg]
        return made


def measured_frontier(
    data: str | os.PathLike[str] | Sequence[str],
    model: Model,
    points: Sequence[Point],
    size: tuple[int, bool, int],
    seed: int,
    folder: Path | None = None,
    progress: Progress | None = None,
) -> Frontier:
    """The frontier of `points`, and of one token per pass.

    size   tokens of a text, whether longer texts are cut to their first tokens, and the most texts
    """
    import pyarrow

    length, first, most = size
    lm = as_model(model)
    profile = (
        Profile.of(lm)
        if any(hasattr(KERNELS[point.decoder], "profile") for point in points)
        else None
    )
    texts = [text.text for text in read_texts(data)]
    ids, skipped = pieces(lm, texts, *size)
    look_at_first(lm, ids.tolist())
    settings = {
        "model": model_name(model),
        "weights": lm.fingerprint,
        "dtype": str(lm.dtype).removeprefix("torch."),
        "device": lm.device.type,
        "data": str(data) if isinstance(data, str | os.PathLike) else f"{len(texts)} given texts",
        "data_sha256": content_hash("\n".join(texts)),
        "length": length,
        "first": first,
        "sentences": most,
        "decoders": list(dict.fromkeys(point.decoder for point in points)),
        "passes": sorted({point.passes for point in points if point.passes is not None}),
        "profile": None if profile is None else profile.to_dict(),
        "seed": seed,
    }
    every = [*points, *(Point(name, None) for name in SEQUENTIAL)]
    measured = partial(_rows, lm, ids, every, seed, progress)
    columns = pyarrow.schema([*COLUMNS.items()])
    if folder is None:
        rows = pyarrow.Table.from_pylist([row for rows in measured(set()) for row in rows], columns)
        return Frontier(settings, rows.to_pandas(), skipped)
    with RunFolder(folder, KIND, settings) as run:
        done = {
            (row["decoder"], row["asked"], row["text"]) for row in run.rows(columns).to_pylist()
        }
        for rows in measured(done):
            run.store(rows, columns)
        frontier = Frontier(settings, run.rows(columns).to_pandas(), skipped)
        frontier.save(run.path)
    return frontier


def pieces(
    model: MaskedLM, texts: Sequence[str], length: int, first: bool, most: int
) -> tuple[Int[Tensor, "n T"], Counter[str]]:
    """Texts of exactly `length` tokens (with `first`: the first tokens of longer ones, too),
    and why others were left out.
    """
    before, after = model.around()
    refuse_too_long(length + len(before) + len(after), model.max_length)
    special, rows, skipped = {*model.special_ids, model.mask_id}, list[list[int]](), Counter[str]()
    for text in texts:
        if len(rows) == most:
            break
        try:
            ids = model.words.encode(text)
        except InputError:
            skipped["cannot be read"] += 1
            continue
        inside = ids[len(before) : len(ids) - len(after)]
        if len(inside) < length or (len(inside) > length and not first):
            skipped["of another length"] += 1
        elif special & set(inside[:length]):
            skipped["with special or unknown tokens"] += 1
        else:
            rows.append([*before, *inside[:length], *after])
    if not rows:
        more = "" if first else ", or take the first tokens of longer ones (first)"
        raise InputError(
            f"data has no text of {length} tokens: give other texts or another length{more}"
        )
    return torch.tensor(rows, device=model.device), skipped


def _rows(
    model: MaskedLM,
    ids: Int[Tensor, "n T"],
    points: Sequence[Point],
    seed: int,
    progress: Progress | None,
    done: set[tuple[str, int | None, int]],
) -> Iterator[list[dict[str, Any]]]:
    """Rows of the points and texts that are not done, a batch of texts at a time."""
    before, after = model.around()
    length = ids.shape[1] - len(before) - len(after)
    target, runs = Target(model, blank_template(model, length)), Passes(model, form="logits")
    at_once = logit_rows(model, length)
    total, made = len(ids) * sum(point.passes or length for point in points), 0
    for point in points:
        decoder = point.build(target, runs)
        pending = [
            text for text in range(len(ids)) if (point.decoder, point.passes, text) not in done
        ]
        made += (len(ids) - len(pending)) * (point.passes or length)
        if progress:
            progress(made, total, "passes")
        for start in range(0, len(pending), at_once):
            some = pending[start : start + at_once]
            laws = law(decoder, ids[some], ChainStreams(seed, some, model.device).at(0, 0))
            rounds = rows = laws.passes.tolist()
            if isinstance(decoder, Verified):
                rounds, rows = _drawn(decoder, some, seed)
            columns = (some, laws.passes.tolist(), rounds, rows, (-laws.log_q.sum(1)).tolist())
            names = ("text", "passes", "rounds", "rows", "nats")
            same = {"decoder": point.decoder, "asked": point.passes}
            yield [
                {**same, **dict(zip(names, row, strict=True))} for row in zip(*columns, strict=True)
            ]
            made += len(some) * (point.passes or length)
            if progress:
                progress(made, total, "passes")


def _drawn(
    decoder: Verified, texts: Sequence[int], seed: int
) -> tuple[list[int | None], list[int | None]]:
    """Rounds and rows of texts that are drawn in the place of the first of `texts`, None for
    the others.
    """
    some = [text for text in texts if text < DRAWN]
    rest: list[int | None] = [None] * (len(texts) - len(some))
    if not some:
        return rest, rest
    state, rows = decode(
        decoder, len(some), ChainStreams(seed, some, decoder.target.device).at(0, 1)
    )
    assert isinstance(state, VerifiedState)
    return [*state.rounds.tolist(), *rest], [*rows.tolist(), *rest]


@dataclass(frozen=True, repr=False)
class Frontier(Result):
    """Nats per token of every decoder at every number of passes.

    settings   of the call, with the model's fingerprint and a hash of the data
    rows       one row per text and decoder: decoder, asked (passes asked for; missing: one
               token per pass), text, passes of its law, rounds and rows of a text that is drawn
               (of verified for the first 64 texts), nats
    skipped    how many texts were left out, by reason
    about      when, where and with which versions it was made

    >>> texts = ["Two men are in a park."]
    >>> frontier = unmask.frontier(texts, decoders=["random"], passes=[2], length=7)
    >>> [point["passes"] for point in frontier.points]
    [2.0, 7.0, 7.0, 7.0]
    """

    KEYS = ("texts", "best", "points", "settings", "skipped_texts=skipped")

    settings: dict[str, Any]
    rows: pandas.DataFrame
    skipped: Mapping[str, int] = field(default_factory=dict)
    about: dict[str, Any] = field(default_factory=provenance)

    @cached_property
    def points(self) -> list[dict[str, Any]]:
        """{decoder, asked, passes, rounds, rows, nats, difference}: means over texts; nats per
        token and its difference from `best` have 95 % bootstrap intervals over texts, {"value",
        "low", "high"}."""
        length, seed = self.settings["length"], self.settings["seed"]
        points, values = list[dict[str, Any]](), []
        for (decoder, asked), group in self.rows.groupby(
            ["decoder", "asked"], dropna=False, sort=False
        ):
            ordered = group.sort_values("text")
            means = {name: float(ordered[name].mean()) for name in COUNTED}
            points.append(
                {"decoder": decoder, "asked": None if np.isnan(asked) else int(asked), **means}
            )
            values.append(ordered["nats"].to_numpy(float) / length)
        return against_best(points, np.array(values), seed)

    @property
    def best(self) -> str:
        """The best order of one token per pass, from which differences are taken."""
        return str(next(point["decoder"] for point in self.points if point["best"]))

    @property
    def texts(self) -> int:
        """How many texts were measured."""
        return int(self.rows["text"].nunique())

    def to_frame(self) -> pandas.DataFrame:
        """One row per decoder and number of passes."""
        return frame_of(self.points, ("decoder", "asked", *COUNTED), ("nats", "difference"))

    def to_dict(self) -> dict[str, Any]:
        """The content of frontier.json, which `--json` prints."""
        return {**super().to_dict(), **self.about}

    def to_markdown(self) -> str:
        """The table for people."""
        head = ["decoder", "rounds", "rows", "nats per token", f"minus {self.best}"]
        lines = [self.headline + ".", "", line(head), line(["---", *["---:"] * 4])]
        for point in self.points:
            lines.append(line([name_of(point), *cells(point)]))
        lines += [
            "",
            (
                "In brackets: 95 % bootstrap intervals over texts; differences are paired by text."
                " Lower is better."
            ),
        ]
        return "\n".join(lines) + "\n"

    @property
    def headline(self) -> str:
        """The texts and the model, in a line."""
        texts, source = (
            "1 text" if self.texts == 1 else f"{self.texts:,} texts",
            Path(self.settings["data"]).name,
        )
        return (
            f"{texts} of {self.settings['length']} tokens of {source}, model"
            f" {self.settings['model']}"
        )

    def figure(self) -> Figure:
        """Nats per token against rounds; bars are the intervals of the differences."""
        from unmask.common.figures import Figure

        figure = Figure(figsize=(9, 4.8), layout="constrained")
        axes = figure.subplots()
        for name in dict.fromkeys(point["decoder"] for point in self.points):
            mine = sorted(
                (point for point in self.points if point["decoder"] == name),
                key=lambda point: point["rounds"],
            )
            if mine[0]["asked"] is None:
                label = f"{name}, {mine[0]['passes']:g} rounds"
                colour, dashes = LINES[name]
                axes.axhline(
                    mine[0]["nats"]["value"],
                    color=colour,
                    linestyle=dashes,
                    linewidth=1.2,
                    label=label,
                )
                continue
            rounds, nats = (
                [point["rounds"] for point in mine],
                [point["nats"]["value"] for point in mine],
            )
            apart = [
                [
                    0.0 if (to := point["difference"])[end] is None else abs(to[end] - to["value"])
                    for point in mine
                ]
                for end in ("low", "high")
            ]
            style: dict[str, Any] = {"marker": "o", "markersize": 4, "linewidth": 1.5, "capsize": 2}
            axes.errorbar(
                rounds, nats, apart, label=KERNELS[name].label, color=KERNELS[name].colour, **style
            )
        axes.set_xscale("log", base=2)
        ticks = sorted({point["asked"] for point in self.points if point["asked"]})
        axes.set_xticks(ticks, [str(tick) for tick in ticks])
        axes.minorticks_off()
        axes.set(xlabel="rounds per text", ylabel="nats per token")
        axes.set_title(self.headline, fontsize=9, parse_math=False)
        axes.spines[["top", "right"]].set_visible(False)
        if ticks:
            figure.legend(frameon=False, fontsize=9, loc="outside right center")
        return figure

    @checked
    def save(self, folder: Path) -> None:
        """Write results.parquet, frontier.md, frontier.json and frontier.png."""
        folder = user_path(folder, "folder")
        write_table(folder / "results.parquet", self.rows)
        write_json(folder / "frontier.json", self.to_dict())
        write_atomically(folder / "frontier.md", self.to_markdown())
        write_atomically(folder / "frontier.png", self.figure().drawn())

    def __repr__(self) -> str:
        return f"Frontier({self.headline}; {len(self.points)} points)"


def against_best(
    points: Sequence[Mapping[str, Any]], nats: Float[np.ndarray, "points texts"], seed: int
) -> list[dict[str, Any]]:
    """The points with their nats per token and the difference from the best of those with
    `asked` None, as `Frontier.points`.
    """
    one_by_one = [i for i, point in enumerate(points) if point["asked"] is None]
    best = min(one_by_one, key=lambda i: nats[i].mean())
    numbers = with_intervals(np.concatenate([nats, nats - nats[best]]), seed, RESAMPLES)
    both = zip(points, numbers[: len(points)], numbers[len(points) :], strict=True)
    return [
        {**point, "nats": own, "difference": apart, "best": i == best}
        for i, (point, own, apart) in enumerate(both)
    ]


def name_of(point: Mapping[str, Any]) -> str:
    """The decoder of a point; of verified also how many sets, which its rounds do not say."""
    sets = point["asked"] is not None and KERNELS[point["decoder"]].one_by_one
    return f"{point['decoder']}, {point['asked']} sets" if sets else str(point["decoder"])


def cells(point: Mapping[str, Any]) -> list[str]:
    """Rounds, rows, nats and difference of a point, as text."""
    counts = [f"{point[name]:.1f}".removesuffix(".0") for name in ("rounds", "rows")]
    numbers = [*counts, cell(point["nats"], "nats")]
    return [*numbers, "0" if point["best"] else cell(point["difference"], "difference")]
