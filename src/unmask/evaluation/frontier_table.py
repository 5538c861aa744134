"""The result of `frontier`: nats per token at each number of passes, with intervals paired by text, a table and a figure."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from unmask.arguments import checked
from unmask.evaluation.table import with_intervals
from unmask.runs.files import write_atomically, write_json, write_table
from unmask.runs.fingerprint import provenance
from unmask.sampling.registry import KERNELS

if TYPE_CHECKING:
    import pandas

    from unmask.figures import Figure

RESAMPLES = 2000
GREYS = {"surest first": "#222222", "random order": "#777777", "left to right": "#AAAAAA"}
DASHES = {"surest first": "-", "random order": "--", "left to right": ":"}
FILES = ("frontier.md", "frontier.json", "frontier.png", "results.parquet")


@dataclass(frozen=True, repr=False)
class Frontier:
    """Nats per token of every decoder at every number of passes.

    settings   what was asked, with the model's fingerprint and a hash of the data
    rows       one row per text and decoder: decoder, asked (passes asked for; missing: one token per pass), text, passes, nats
    skipped    how many texts were left out, by reason
    about      when, where and with which versions it was made

    >>> found = unmask.frontier(["Two men are in a park."], decoders=["random"], passes=[2], length=7)
    >>> [point["passes"] for point in found.points]
    [2.0, 7.0, 7.0, 7.0]
    """

    settings: dict[str, Any]
    rows: pandas.DataFrame
    skipped: Mapping[str, int] = field(default_factory=dict)
    about: dict[str, Any] = field(default_factory=provenance)

    @cached_property
    def points(self) -> list[dict[str, Any]]:
        """{decoder, asked, passes, nats, difference}: means over texts; nats per token and its difference from `best` have 95 %
        bootstrap intervals over texts, {"value", "low", "high"}."""
        length, seed = self.settings["length"], self.settings["seed"]
        found, values = list[dict[str, Any]](), []
        for (decoder, asked), group in self.rows.groupby(["decoder", "asked"], dropna=False, sort=False):
            ordered = group.sort_values("text")
            passes = float(ordered["passes"].mean())
            found.append({"decoder": decoder, "asked": None if np.isnan(asked) else int(asked), "passes": passes})
            values.append(ordered["nats"].to_numpy(float) / length)
        return against_best(found, np.array(values), seed)

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
        import pandas

        rows = []
        for point in self.points:
            row = {name: point[name] for name in ("decoder", "asked", "passes")}
            for name in ("nats", "difference"):
                row |= {name: point[name]["value"], f"{name}_low": point[name]["low"], f"{name}_high": point[name]["high"]}
            rows.append(row)
        return pandas.DataFrame(rows)

    def to_dict(self) -> dict[str, Any]:
        """What `--json` prints and frontier.json holds."""
        return {
            "texts": self.texts,
            "best": self.best,
            "points": self.points,
            "settings": self.settings,
            "skipped_texts": dict(self.skipped),
            **self.about,
        }

    def to_markdown(self) -> str:
        """The table for people."""
        head = ["decoder", "passes", "nats per token", f"minus {self.best}"]
        lines = [self.title() + ".", "", _line(head), _line(["---", "---:", "---:", "---:"])]
        for point in self.points:
            lines.append(_line([point["decoder"], *cells(point)]))
        lines += ["", "In brackets: 95 % bootstrap intervals over texts; differences are paired by text. Lower is better."]
        return "\n".join(lines) + "\n"

    def title(self) -> str:
        """The texts and the model, in a line."""
        kept, texts = self.settings, "1 text" if self.texts == 1 else f"{self.texts:,} texts"
        return f"{texts} of {kept['length']} tokens of {Path(kept['data']).name}, model {kept['model']}"

    def figure(self) -> Figure:
        """Nats per token against passes; bars are the intervals of the differences."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        from unmask.figures import Figure

        figure = Figure(figsize=(9, 4.8), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots()
        for name in dict.fromkeys(point["decoder"] for point in self.points):
            mine = sorted((point for point in self.points if point["decoder"] == name), key=lambda point: point["passes"])
            if mine[0]["asked"] is None:
                label = f"{name}, {mine[0]['passes']:g} passes"
                axes.axhline(mine[0]["nats"]["value"], color=GREYS[name], linestyle=DASHES[name], linewidth=1.2, label=label)
                continue
            passes, nats = ([point["passes"] for point in mine], [point["nats"]["value"] for point in mine])
            apart = [[_reach(point["difference"], end) for point in mine] for end in ("low", "high")]
            style: dict[str, Any] = {
                "color": KERNELS[name].colour,
                "marker": "o",
                "markersize": 4,
                "linewidth": 1.5,
                "capsize": 2,
            }
            axes.errorbar(passes, nats, apart, label=KERNELS[name].label, **style)
        axes.set_xscale("log", base=2)
        ticks = sorted({point["asked"] for point in self.points if point["asked"]})
        axes.set_xticks(ticks, [str(tick) for tick in ticks])
        axes.minorticks_off()
        axes.set(xlabel="passes per text", ylabel="nats per token")
        axes.set_title(self.title(), fontsize=9, parse_math=False)
        axes.spines[["top", "right"]].set_visible(False)
        if ticks:
            figure.legend(frameon=False, fontsize=9, loc="outside right center")
        return figure

    @checked
    def save(self, folder: Path) -> None:
        """Write results.parquet, frontier.md, frontier.json and frontier.png."""
        table, numbers, image, rows = (folder / name for name in FILES)
        write_table(rows, self.rows)
        write_json(numbers, self.to_dict())
        write_atomically(table, self.to_markdown())
        drawn = io.BytesIO()
        self.figure().savefig(drawn, format="png", dpi=150)
        write_atomically(image, drawn.getvalue())

    def __repr__(self) -> str:
        return f"Frontier({self.title()}; {len(self.points)} points)"

    def _repr_html_(self) -> str:
        return str(self.to_frame().to_html(index=False, float_format="{:,.3f}".format))


def against_best(points: Sequence[Mapping[str, Any]], nats: Float[np.ndarray, "points texts"], seed: int) -> list[dict[str, Any]]:
    """The points with their nats per token and the difference from the best of those with `asked` None, as `Frontier.points`."""
    one_by_one = [i for i, point in enumerate(points) if point["asked"] is None]
    best = min(one_by_one, key=lambda i: nats[i].mean())
    numbers = with_intervals(np.concatenate([nats, nats - nats[best]]), seed, RESAMPLES)
    both = zip(points, numbers[: len(points)], numbers[len(points) :], strict=True)
    return [{**point, "nats": own, "difference": apart, "best": i == best} for i, (point, own, apart) in enumerate(both)]


def cells(point: Mapping[str, Any]) -> list[str]:
    """Passes, nats and difference of a point, as text."""
    nats, apart = point["nats"], point["difference"]
    shown = [f"{point['passes']:.1f}".removesuffix(".0"), _interval(nats, "{:.3f}")]
    return [*shown, "0" if point["best"] else _interval(apart, "{:+.3f}")]


def _reach(number: Mapping[str, Any], end: str) -> float:
    return 0.0 if number[end] is None else abs(number[end] - number["value"])


def _interval(number: Mapping[str, Any], form: str) -> str:
    value = form.format(number["value"])
    return value if number["low"] is None else f"{value} [{form.format(number['low'])}, {form.format(number['high'])}]"


def _line(parts: list[str]) -> str:
    return "| " + " | ".join(parts) + " |"
