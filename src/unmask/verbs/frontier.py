"""`frontier`: nats per token of the decoders that have a law, against their passes.

    nats per token of a decoder at n passes = mean over texts x of -log law(x) / L

where law(x) is the probability with which the decoder draws x, and L the number of tokens of x.
If a decoder draws a random order, law(x) is the probability of x in that order.

Three orders of one token per pass are measured on the same texts. Differences are taken from the
best of these orders, text by text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from annotated_types import Interval

from unmask.common.border.calls import checked
from unmask.common.border.marks import TakesMethod, Written
from unmask.common.files import write_atomically, write_json
from unmask.common.result_tables import Column, Table
from unmask.common.results import Result
from unmask.models.load import Model
from unmask.runs.fingerprint import provenance
from unmask.runs.progress import Progress
from unmask.sampling.decoders.decoder import Decoder
from unmask.sampling.methods import decoder_class
from unmask.verbs import Out, PathLike, Seed
from unmask.verbs.study_tables import (
    cell,
    frame_of,
    markdown_table,
    place_of,
    skipped_in_words,
    write_study,
)

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

    from unmask.common.figures import Figure
    from unmask.studies.evaluation.frontier import TextsToMeasure

MOST_TOKENS = 100_000
"""The longest text, and so the most passes."""
Parts = Annotated[int, Interval(ge=1, le=MOST_TOKENS)]
"""A number of passes, or of sets."""
LINES = {
    "surest first": ("#222222", "-"),
    "random order": ("#777777", "--"),
    "left to right": ("#AAAAAA", ":"),
}
"""The orders of one token per pass, with colour and dashes of their lines in the figure."""
CURVE: dict[str, Any] = {"marker": "o", "markersize": 4, "linewidth": 1.5, "capsize": 2}
"""How the figure draws the other decoders."""
Point = Mapping[str, Any]
"""A decoder at a number of passes, as `Frontier.points` has it."""


@dataclass(frozen=True, repr=False)
class Frontier(Result):
    """Nats per token of every decoder at every number of passes.

    settings    of the call, with the model's fingerprint and a hash of the data
    rows        one dict per text and point: decoder; asked (the passes, or sets, that were asked
                for; None for an order of one token per pass); text (its number, from 0); passes
                (of the law); rounds and rows (to draw a text; of verified known for the first 64
                texts only, else None); nats (of the whole text)
    skipped     how many texts were left out, by reason
    decoders    by name, those that the user gave as objects
    folder      where the run is kept, if it is
    provenance  when, where and with which versions it was made

    >>> texts = ["Two men are in a park."]
    >>> frontier = unmask.frontier(texts, decoders=["random-sets"], passes=[2], length=7)
    >>> [point["passes"] for point in frontier.points]
    [2.0, 7.0, 7.0, 7.0]
    """

    KEYS: ClassVar[tuple[str, ...]] = (
        "n_texts",
        "best",
        "points",
        "settings",
        "skipped_texts=skipped",
    )

    settings: dict[str, Any]
    rows: list[dict[str, Any]]
    skipped: Mapping[str, int] = field(default_factory=dict)
    decoders: Mapping[str, Decoder] = field(default_factory=dict)
    folder: Path | None = None
    provenance: dict[str, Any] = field(default_factory=provenance)

    # ---- numbers ----

    @cached_property
    def points(self) -> list[dict[str, Any]]:
        """A dict for each decoder at each number of passes, with means over texts.

            {decoder, asked, passes, rounds, rows, nats, difference, best}

        Here nats are per token, and difference is that from the best order of one token per pass,
        whose point has best True. Both are dicts {"value", "low", "high"} with a 95 % bootstrap
        interval over texts.
        """
        from unmask.studies.evaluation.frontier_summary import points_of_rows

        return points_of_rows(self.rows, self.settings["length"], self.settings["seed"])

    @property
    def best(self) -> str:
        """The best order of one token per pass, from which differences are taken."""
        (best,) = [point for point in self.points if point["best"]]
        return str(best["decoder"])

    @property
    def n_texts(self) -> int:
        """How many texts were measured."""
        return len({row["text"] for row in self.rows})

    # ---- what a person sees ----

    def about(self) -> list[str]:
        """The texts and the model."""
        return [f"{self.headline}."]

    def tables(self) -> list[Table]:
        """A row per decoder and number of passes."""
        columns = [
            Column("decoder", text=True),
            Column("rounds", show=_count),
            Column("rows", show=_count),
            Column("nats per token", show=partial(cell, measure="nats")),
            Column(f"minus {self.best}", show=partial(cell, measure="difference")),
        ]
        rows = []
        for point in self.points:
            row = [self.name_of(point), point["rounds"], point["rows"], point["nats"]]
            if point["best"]:  # the difference from itself
                row.append("0")
            else:
                row.append(point["difference"])
            rows.append(row)
        return [Table(columns, rows)]

    def verdict(self) -> list[str]:
        """Which decoders are as good as one token per pass, and how to read the numbers."""
        reading = (
            "In brackets: 95 % bootstrap intervals over texts; differences are paired by text."
            " Lower is better."
        )
        return [*self._as_good_as_best(), reading]

    def _as_good_as_best(self) -> list[str]:
        """A sentence that lists the decoders that are not significantly worse than `best`.

        The orders of one token per pass are not among them. Without intervals there is no
        sentence.
        """
        points = [point for point in self.points if point["asked"] is not None]
        if any(point["difference"]["low"] is None for point in points):  # a single text
            return []
        as_good = []
        for point in points:
            if point["difference"]["low"] <= 0:
                as_good.append(f"{self.name_of(point)} in {_count(point['rounds'])} rounds")
        if not as_good:
            return [f"All are significantly worse than one token per pass ({self.best})."]
        return [f"Not significantly worse than {self.best}: {', '.join(as_good)}."]

    def notices(self) -> list[str]:
        """Where the files are, and which texts were skipped."""
        return [place_of("rows, table and figure", self.folder), *skipped_in_words(self.skipped)]

    @property
    def headline(self) -> str:
        """The texts and the model, in a line."""
        texts = "1 text" if self.n_texts == 1 else f"{self.n_texts:,} texts"
        source = Path(self.settings["data"]).name
        return (
            f"{texts} of {self.settings['length']} tokens of {source}, model"
            f" {self.settings['model']}"
        )

    def __repr__(self) -> str:
        return f"Frontier({self.headline}; {len(self.points)} points)"

    def name_of(self, point: Point) -> str:
        """The decoder of a point. If it drafts sets, also their number, which its rounds do not
        say.
        """
        name = str(point["decoder"])
        if point["asked"] is None:  # an order of one token per pass
            return name
        if self._decoder(name).one_by_one:  # `asked` is then a number of sets
            return f"{name}, {point['asked']} sets"
        return name

    def _decoder(self, name: str) -> Decoder | type[Decoder]:
        """The user's object of this name, or else our class: both have label, colour and
        `one_by_one`.
        """
        if name in self.decoders:
            return self.decoders[name]
        return decoder_class(name)

    def figure(self) -> Figure:
        """Nats per token against rounds; bars are the intervals of the differences."""
        from unmask.common.figures import Figure

        figure = Figure(figsize=(9, 4.8), layout="constrained")
        axes = figure.subplots()
        for name in dict.fromkeys(point["decoder"] for point in self.points):
            of_decoder = [point for point in self.points if point["decoder"] == name]
            if name in LINES:
                (point,) = of_decoder  # an order of one token per pass has one number of passes
                _draw_line(axes, point)
            else:
                _draw_curve(axes, of_decoder, self._decoder(name))
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

    # ---- for other programs ----

    def to_frame(self) -> pandas.DataFrame:
        """One row per decoder and number of passes."""
        from unmask.studies.evaluation.frontier_summary import COUNTED

        names = ("decoder", "asked", *COUNTED)
        return frame_of(self.points, names=names, measures=("nats", "difference"))

    def to_dict(self) -> dict[str, Any]:
        """The content of frontier.json, which the command prints as JSON."""
        return {**super().to_dict(), **self.provenance}

    def to_markdown(self) -> str:
        """The table for people."""
        (table,) = self.tables()
        head = [column.head for column in table.columns]
        lines = [*self.about(), "", *markdown_table(head, table.shown()), "", *self.verdict()]
        return "\n".join(lines) + "\n"

    @checked
    def save(self, path: PathLike) -> Path:
        """Write one file, by its ending: the table as .md or .json, or the rows as .parquet, .csv
        or .jsonl.
        """
        return write_study(path, self.to_markdown(), self.to_dict(), self.rows)


def _count(mean: float) -> str:
    """A mean number of rounds or rows, with one decimal unless that is 0."""
    return f"{mean:.1f}".removesuffix(".0")


def _draw_line(axes: Axes, point: Point) -> None:
    """Draw an order of one token per pass: a horizontal line at its nats."""
    name = point["decoder"]
    colour, dashes = LINES[name]
    axes.axhline(
        point["nats"]["value"],
        color=colour,
        linestyle=dashes,
        linewidth=1.2,
        label=f"{name}, {point['passes']:g} rounds",
    )


def _draw_curve(axes: Axes, points: Sequence[Point], decoder: Decoder | type[Decoder]) -> None:
    """Draw a decoder's nats against its rounds; the bars are the intervals of the differences."""
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


def _reach(mean: Mapping[str, float | None], end: str) -> float:
    """The length of the error bar from a mean to the "low" or "high" end of its interval; 0
    without an interval.
    """
    value = mean["value"]
    limit = mean[end]
    if value is None or limit is None:
        return 0.0
    return abs(limit - value)


@checked
def frontier(
    data: Annotated[PathLike | Sequence[str], Written(metavar="PATH")],
    model: Model = None,
    *,
    decoders: Annotated[
        str | Decoder | Sequence[str | Decoder] | None,
        TakesMethod("unmask.sampling.decoders.decoder:DECODERS", several=True, options=False),
    ] = None,
    passes: Sequence[Parts] | None = None,
    sets: Sequence[Parts] | None = None,
    length: Annotated[int, Interval(ge=2, le=MOST_TOKENS)] = 16,
    first: bool = False,
    limit: Annotated[int, Interval(ge=1, le=10_000_000)] = 256,
    seed: Seed = 0,
    out: Out = None,
    progress: Progress | None = None,
) -> Frontier:
    """Nats per token against passes, for every decoder that has a law, beside one token per pass.

    All tokens are masked at the start; q runs over regular tokens at temperature 1. Intervals
    are paired by text.

    Parameters:
        data: Texts: a file with one per line, .jsonl, .csv or .tsv with a column text, .conllu or
            .fasta (also .gz, .xz), - (standard input), or snli or xsum. In Python also a list of
            texts.
        decoders: Decoders with a law [default: all]. In Python also objects, such as
            unmask.LeastDependent(profile=...); a number of passes that is not the decoder's default
            is then its only one.
        passes: Passes of each, below length [default: 2, 4, 8 and 16].
        sets: Of verified: its sets, below length [default: the numbers of passes].
        length: Tokens of a text; texts of another length are skipped.
        first: Take the first tokens of longer texts, too.
        limit: The most texts to measure.
        seed: Seed of random orders and of the bootstrap.

    Returns:
        A `Frontier`: nats per token of each decoder and number of passes, with intervals.

    >>> texts = ["The dog barked at the old man.", "A girl sat on the red chair."]
    >>> frontier = unmask.frontier(texts, decoders=["interleaved"], passes=[2], length=8)
    >>> frontier.to_frame()["decoder"].tolist()
    ['interleaved', 'surest first', 'random order', 'left to right']
    """
    from unmask.runs.folder import RunFolder, output_folder
    from unmask.studies.evaluation.frontier import KIND, measured, points_of, texts_to_measure

    decoder_objects: Any = decoders  # `checked` has replaced names by objects
    points = points_of(decoder_objects, passes, sets, length)
    folder = None if out is None else output_folder(out, KIND)
    texts = texts_to_measure(
        data, model, points, length=length, first=first, limit=limit, seed=seed
    )
    if folder is None:
        rows = measured(texts, None, progress)
        return _result(texts, rows, folder=None)
    with RunFolder(folder, KIND, texts.settings) as run:
        rows = measured(texts, run, progress)
        result = _result(texts, rows, run.path)
        _write(result, run.path)
    return result


def _result(texts: TextsToMeasure, rows: list[dict[str, Any]], folder: Path | None) -> Frontier:
    """The result of texts that were measured."""
    return Frontier(
        settings=texts.settings,
        rows=rows,
        skipped=texts.skipped,
        decoders=texts.decoders,
        folder=folder,
    )


def _write(frontier: Frontier, folder: Path) -> None:
    """Write results.parquet, frontier.md, frontier.json and frontier.png."""
    from unmask.studies.evaluation.frontier import write_rows

    write_rows(folder / "results.parquet", frontier.rows)
    write_json(folder / "frontier.json", frontier.to_dict())
    write_atomically(folder / "frontier.md", frontier.to_markdown())
    write_atomically(folder / "frontier.png", frontier.figure().drawn())
