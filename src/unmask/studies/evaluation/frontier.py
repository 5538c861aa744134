"""The frontier of passes against nats: the decoders' means, and their differences from one token
per pass.

    nats per token of a decoder at n passes = mean over texts of -log law(x) / L

`frontier_rows` has how the texts are measured. Differences are from the best of the orders of one
token per pass, text by text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from jaxtyping import Float

from unmask.common.border.calls import checked
from unmask.common.files import user_path, write_atomically, write_json, write_table
from unmask.common.results import Result
from unmask.runs.fingerprint import provenance
from unmask.sampling.decoders.decoder import Decoder
from unmask.sampling.methods import decoder_class
from unmask.studies.evaluation.markdown import cell, frame_of, line, rule
from unmask.studies.evaluation.summary import with_intervals

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

    from unmask.common.figures import Figure

RESAMPLES = 2000
COUNTED = ("passes", "rounds", "rows")
"""What is counted of a text."""
LINES = {
    "surest first": ("#222222", "-"),
    "random order": ("#777777", "--"),
    "left to right": ("#AAAAAA", ":"),
}
"""Colour and dashes of the orders of one token per pass."""
CURVE: dict[str, Any] = {"marker": "o", "markersize": 4, "linewidth": 1.5, "capsize": 2}
Measured = Mapping[str, Any]
"""A point of the frontier, as `Frontier.points` has it."""


@dataclass(frozen=True, repr=False)
class Frontier(Result):
    """Nats per token of every decoder at every number of passes.

    settings   of the call, with the model's fingerprint and a hash of the data
    rows       one row per text and decoder: decoder, asked (passes or sets asked for; missing:
               one token per pass), text, passes of its law, rounds and rows of a text that is drawn
               (of verified for the first 64 texts), nats
    skipped    how many texts were left out, by reason
    about      when, where and with which versions it was made
    decoders   by name, those that the user gave as objects

    >>> texts = ["Two men are in a park."]
    >>> frontier = unmask.frontier(texts, decoders=["random-sets"], passes=[2], length=7)
    >>> [point["passes"] for point in frontier.points]
    [2.0, 7.0, 7.0, 7.0]
    """

    KEYS: ClassVar[tuple[str, ...]] = (
        "texts",
        "best",
        "points",
        "settings",
        "skipped_texts=skipped",
    )

    settings: dict[str, Any]
    rows: pandas.DataFrame
    skipped: Mapping[str, int] = field(default_factory=dict)
    about: dict[str, Any] = field(default_factory=provenance)  # type: ignore[assignment]
    decoders: Mapping[str, Decoder] = field(default_factory=dict)

    @cached_property
    def points(self) -> list[dict[str, Any]]:
        """{decoder, asked, passes, rounds, rows, nats, difference}: means over texts; nats per
        token and its difference from `best` have 95 % bootstrap intervals over texts, {"value",
        "low", "high"}."""
        points: list[dict[str, Any]] = []
        nats_per_token = []
        groups = self.rows.groupby(["decoder", "asked"], dropna=False, sort=False)
        for (decoder, asked), of_point in groups:
            by_text = of_point.sort_values("text")  # so that differences are paired by text
            point = {"decoder": decoder, "asked": None if np.isnan(asked) else int(asked)}
            for name in COUNTED:
                point[name] = float(by_text[name].mean())
            points.append(point)
            nats_per_token.append(by_text["nats"].to_numpy(float) / self.settings["length"])
        return against_best(points, np.array(nats_per_token), self.settings["seed"])

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
        """The content of frontier.json, which the command prints as JSON."""
        return {**super().to_dict(), **self.about}

    def to_markdown(self) -> str:
        """The table for people."""
        head = ["decoder", "rounds", "rows", "nats per token", f"minus {self.best}"]
        lines = [self.headline + ".", "", line(head), rule(len(head))]
        for point in self.points:
            lines.append(line([self.name_of(point), *cells(point)]))
        lines += [
            "",
            "In brackets: 95 % bootstrap intervals over texts; differences are paired by text."
            " Lower is better.",
        ]
        return "\n".join(lines) + "\n"

    def decoder(self, name: str) -> Decoder | type[Decoder]:
        """The decoder of a name: the user's object, or one of our classes."""
        if name in self.decoders:
            return self.decoders[name]
        return decoder_class(name)

    def name_of(self, point: Measured) -> str:
        """The decoder of a point; of verified also how many sets, which its rounds do not say."""
        name = str(point["decoder"])
        if point["asked"] is not None and self.decoder(name).one_by_one:
            return f"{name}, {point['asked']} sets"
        return name

    @property
    def headline(self) -> str:
        """The texts and the model, in a line."""
        texts = "1 text" if self.texts == 1 else f"{self.texts:,} texts"
        source = Path(self.settings["data"]).name
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
            of_decoder = [point for point in self.points if point["decoder"] == name]
            if name in LINES:
                (point,) = of_decoder
                _draw_line(axes, point)
            else:
                _draw_curve(axes, of_decoder, self.decoder(name))
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
        write_frontier(self, user_path(folder, "folder"))

    def __repr__(self) -> str:
        return f"Frontier({self.headline}; {len(self.points)} points)"


def write_frontier(frontier: Frontier, folder: Path) -> None:
    """Write the files of `Frontier.save`."""
    write_table(folder / "results.parquet", frontier.rows)
    write_json(folder / "frontier.json", frontier.to_dict())
    write_atomically(folder / "frontier.md", frontier.to_markdown())
    write_atomically(folder / "frontier.png", frontier.figure().drawn())


def _draw_line(axes: Axes, point: Measured) -> None:
    """An order of one token per pass: its nats, whatever the rounds."""
    name = point["decoder"]
    colour, dashes = LINES[name]
    axes.axhline(
        point["nats"]["value"],
        color=colour,
        linestyle=dashes,
        linewidth=1.2,
        label=f"{name}, {point['passes']:g} rounds",
    )


def _draw_curve(axes: Axes, points: Sequence[Measured], decoder: Decoder | type[Decoder]) -> None:
    """A decoder's nats against its rounds, with the intervals of the differences."""
    ordered = sorted(points, key=lambda point: point["rounds"])
    axes.errorbar(
        [point["rounds"] for point in ordered],
        [point["nats"]["value"] for point in ordered],
        yerr=[
            [_reach(point["difference"], "low") for point in ordered],
            [_reach(point["difference"], "high") for point in ordered],
        ],
        label=decoder.label,
        color=decoder.colour,
        **CURVE,
    )


def _reach(number: Mapping[str, float | None], end: str) -> float:
    """How far an interval reaches from its mean to its low or high end; 0 without an interval."""
    value = number["value"]
    limit = number[end]
    if value is None or limit is None:
        return 0.0
    return abs(limit - value)


def against_best(
    points: Sequence[Measured], nats: Float[np.ndarray, "points texts"], seed: int
) -> list[dict[str, Any]]:
    """The points with their nats per token and the difference from the best of those with
    `asked` None, as `Frontier.points`.
    """
    one_by_one = [i for i, point in enumerate(points) if point["asked"] is None]
    best = min(one_by_one, key=lambda i: nats[i].mean())
    # In one call: the means and the differences resample the same texts.
    numbers = with_intervals(np.concatenate([nats, nats - nats[best]]), seed, RESAMPLES)
    means = numbers[: len(points)]
    differences = numbers[len(points) :]
    return [
        {**point, "nats": means[i], "difference": differences[i], "best": i == best}
        for i, point in enumerate(points)
    ]


def cells(point: Measured) -> list[str]:
    """Rounds, rows, nats and difference of a point, as text."""
    difference = "0" if point["best"] else cell(point["difference"], "difference")
    return [
        f"{point['rounds']:.1f}".removesuffix(".0"),
        f"{point['rows']:.1f}".removesuffix(".0"),
        cell(point["nats"], "nats"),
        difference,
    ]
