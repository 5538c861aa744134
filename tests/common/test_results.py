"""Results have one form: dictionary, frame, notebook and schema."""

from __future__ import annotations

import runpy
from dataclasses import dataclass
from pathlib import Path

import torch

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
    assert "<table" in made._repr_html_()
    declared = runpy.run_path(str(Path(__file__).parents[2] / "tools" / "site_pages.py"))["schema"](
        Whole
    )
    assert declared["properties"]["count"]["type"] == "integer"
    assert declared["required"] == [
        "count",
        "parts",
        "rows",
    ]
