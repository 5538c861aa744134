"""Results have one form: dictionary, frame, notebook and schema."""

from __future__ import annotations

import runpy
from dataclasses import dataclass
from math import inf
from pathlib import Path

import pytest
import torch

from unmask.common.formats import in_form, nats
from unmask.common.result_tables import Column, Filled, Table
from unmask.common.results import Result


@dataclass(frozen=True)
class Part(Result):
    KEYS = ("text", "gold=is_gold", "note")
    OPTIONAL = ("note",)
    text: str
    is_gold: bool
    note: str | None = None


@dataclass(frozen=True)
class Whole(Result):
    KEYS = ("count", "parts", "rows")
    ROWS = "parts"
    parts: tuple[Part, ...]
    rows: torch.Tensor

    @property
    def count(self) -> int:
        """How many parts."""
        return len(self.parts)


def test_results_have_one_form():
    made = Whole((Part("a", True), Part("b", False, "x")), torch.tensor([[1.0, 2.0]]))
    parts = [{"text": "a", "gold": True}, {"text": "b", "gold": False, "note": "x"}]
    assert made.to_dict() == {"count": 2, "parts": parts, "rows": [[1.0, 2.0]]}
    assert made.to_frame()["text"].tolist() == ["a", "b"]
    assert made._repr_html_().startswith("<pre>Whole(")
    declared = runpy.run_path(str(Path(__file__).parents[2] / "tools" / "site_pages.py"))["schema"](
        Whole
    )
    assert declared["properties"]["count"]["type"] == "integer"
    assert declared["required"] == [
        "count",
        "parts",
        "rows",
    ]


@dataclass(frozen=True)
class Ranked(Result):
    """A result that states its sentences and tables."""

    text: str
    log_probs: dict[str, float]

    @property
    def heading(self) -> str:
        return self.text

    def about(self) -> list[str]:
        return ["2 words, over <all>"]

    def tables(self) -> list[Table]:
        words = [
            [log_prob, Filled(f"a {word}", [(2, 5)], " *")]
            for word, log_prob in self.log_probs.items()
        ]
        columns = [Column("nats", in_form(".2f")), Column("text", text=True)]
        return [Table(columns, words, title="Words", notes=["* given"])]

    def verdict(self) -> list[str]:
        return ["cat is the best"]


def test_sentences_and_tables_are_stated_once_for_all_surfaces():
    ranked = Ranked("a [MASK]", {"cat": -0.125, "dog": -inf})
    assert ranked.summary() == "2 words, over <all>\ncat is the best"
    (table,) = ranked.view()["tables"]
    assert table["rows"][0] == [-0.125, {"text": "a cat", "spans": [[2, 5]], "mark": " *"}]
    assert table["rows"][1][0] == "-Infinity"
    assert table["shown"] == [["-0.12", "a cat *"], ["-inf", "a dog *"]]
    assert table["columns"] == [{"head": "nats", "text": False}, {"head": "text", "text": True}]
    assert ranked.view()["verdict"] == ["cat is the best"]
    html = ranked._repr_html_()
    assert "over &lt;all&gt;" in html
    assert "a <b>cat</b> *" in html
    assert html.index("Words") < html.index("<table") < html.index("given") < html.index("best")


def test_a_notebook_shows_a_line_break_of_every_cell_and_refuses_a_row_that_is_too_short():
    columns = [Column("text", text=True), Column("filled", text=True)]
    filled = Filled("a <b>\ncat\nsat", [(6, 9)], " *")
    html = Table(columns, [["two\nlines", filled]]).to_html()
    assert '<td style="text-align: left">two<br>lines</td>' in html
    assert '<td style="text-align: left">a &lt;b&gt;<br><b>cat</b><br>sat *</td>' in html
    short = Table(columns, [["one"]])
    for form in (short.shown, short.to_dict, short.to_html):
        with pytest.raises(ValueError, match="shorter"):
            form()


def test_a_cell_is_a_text_a_dash_or_what_its_column_makes_of_it():
    column = Column("nats", nats)
    assert [column.shown(value) for value in (None, "exact", 1.25)] == ["-", "exact", "1.250"]
