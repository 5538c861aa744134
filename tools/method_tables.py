"""The tables of methods in docs/, made from the registries.

    python tools/method_tables.py        renews the tables of all pages

In a page a comment before a table says which it is:

    <!-- methods: kernels -->
    | `--kernel` | ...

The site's pages have the tables as the registries are when it is built. In the files of docs/ a
method that states its `place` has its row; a test compares them (tests/test_method_tables.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
TABLE = re.compile(r"(<!-- methods: (?P<name>[a-z ]+) -->\n)(?P<lines>(?:\|.*\n)*)")


@dataclass(frozen=True)
class Row:
    """A row of a table, and whether the method states its place among the others."""

    line: str
    has_place: bool


def tables() -> dict[str, tuple[list[str], list[Row]]]:
    """The lines of the head, and the rows, of each table."""
    from unmask.joints.constructions.construction import CONSTRUCTIONS
    from unmask.sampling.decoders.decoder import DECODERS
    from unmask.sampling.kernels.kernel import KERNELS
    from unmask.scoring.scores.score import SCORES
    from unmask.studies.training.masking.scheme import SCHEMES

    return {
        "constructions": (
            _head("`--construction`", "the joint", "compatible tables give their joint"),
            _rows(CONSTRUCTIONS.values(), _of_construction),
        ),
        "kernels": (
            _head("`--kernel`", "a step", "leaves invariant", "passes of a step"),
            _rows(KERNELS.values(), _of_kernel),
        ),
        "decoders": (
            _head("`--decoder`", "a text", "its law", "passes"),
            _rows(DECODERS.values(), _of_kernel),
        ),
        "scores": (
            _head("name", "definition", "a probability?"),
            _rows(SCORES.values(), _of_score),
        ),
        "masking schemes": (
            _head("`--masking`", "which positions are predicted"),
            _rows(SCHEMES.values(), _of_scheme),
        ),
    }


def _head(*cells: str) -> list[str]:
    return [_line(cells), _line(["---"] * len(cells))]


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n"


def _rows(classes: Iterable[Any], cells_of: Any) -> list[Row]:
    from unmask.common.methods.method import LAST

    return [Row(line=_line(cells_of(cls)), has_place=cls.place != LAST) for cls in classes]


def in_a_cell(sentence: str) -> str:
    """A sentence in a cell begins small, unless it begins with a formula, and has no full stop."""
    first, _, _ = sentence.partition(" ")
    is_word = first.isalpha() and first == first.capitalize()
    if is_word:
        sentence = sentence[:1].lower() + sentence[1:]
    return sentence.removesuffix(".")


def _of_construction(cls: Any) -> tuple[str, ...]:
    return f"`{cls.name}`", in_a_cell(cls.meaning()), "yes" if cls.keeps_compatible else "no"


def _of_kernel(cls: Any) -> tuple[str, ...]:
    return f"`{cls.name}`", in_a_cell(cls.meaning()), cls.law, cls.step_passes


def _of_score(cls: Any) -> tuple[str, ...]:
    answer = "yes" if cls.probability else "no"
    return f"`{cls.name}`", in_a_cell(cls.meaning()), f"{answer}: {cls.why}"


def _of_scheme(cls: Any) -> tuple[str, ...]:
    spelling = cls().spelling
    typed = spelling if isinstance(spelling, str) else cls.name
    return f"`{typed}`", in_a_cell(cls.meaning())


def with_tables(markdown: str) -> str:
    """A page with the tables as the registries are now."""
    made = tables()

    def renewed(found: re.Match[str]) -> str:
        head, rows = made[found["name"]]
        return found[1] + "".join([*head, *(row.line for row in rows)])

    return TABLE.sub(renewed, markdown)


def main() -> None:
    """Renew the tables of all pages."""
    for page in sorted((ROOT / "docs").rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        renewed = with_tables(text)
        if renewed != text:
            page.write_text(renewed, encoding="utf-8")
            print(page.relative_to(ROOT))


if __name__ == "__main__":
    main()
