"""Formulas of the documentation become MathML."""

import re
import runpy
from pathlib import Path

import markdown
import pytest
from latex2mathml.exceptions import ExtraLeftOrMissingRightError

ROOT = Path(__file__).parents[2]
MATHEMATICS = runpy.run_path(str(ROOT / "tools" / "mathematics.py"), run_name="mathematics")


def html(text: str) -> str:
    return markdown.markdown(
        text, extensions=["fenced_code", "tables", MATHEMATICS["Mathematics"]()]
    )


def test_a_formula_in_a_line_and_in_a_block():
    assert "<msub><mi>x</mi><mi>t</mi></msub>" in html("Draw $x_t$ next.")
    assert html("```math\nx_t\ny_t\n```").count('display="block"') == 2


@pytest.mark.parametrize(
    "text", ["`$x_t$`", "```\n$x_t$\n```", "pay $5 or $6", "```console\n$ unmask fill\n$ date\n```"]
)
def test_code_and_prices_stay(text):
    assert "<math" not in html(text)


def test_a_formula_that_is_not_tex_fails():
    with pytest.raises(ExtraLeftOrMissingRightError):
        html("```math\n\\left( x\n```")


def test_every_formula_of_the_documents_is_understood():
    pages = [path for path in (ROOT / "docs").rglob("*.md") if "```math" in path.read_text()]
    assert len(pages) >= 5
    for path in pages:
        text = path.read_text()
        shown = html(text)
        assert shown.count('class="formula"') == text.count("```math"), path
        assert "\\" not in "".join(re.findall(r"<math.*?</math>", shown)), path
