"""For mkdocs: formulas in TeX become MathML while the site is built, so a page needs no script
and no network to show them.

A block is fenced as ```math, a formula within a line stands between dollars: both are what
GitHub renders too.
"""

from __future__ import annotations

import re
from typing import Any

from latex2mathml.converter import convert
from markdown import Markdown
from markdown.extensions import Extension
from markdown.inlinepatterns import InlineProcessor
from markdown.preprocessors import Preprocessor

BLOCK = re.compile(r"^```math\n(?P<formula>.*?)^```$", re.DOTALL | re.MULTILINE)
INLINE = r"(?<![\\$\w])\$(?![\s$])([^$\n`]+?)(?<![\s\\])\$(?!\w)"
BEFORE_FENCES, AFTER_CODE = 30, 185


FUNCTION = re.compile(r"<mi>(log|softmax)</mi>")


def rendered(formula: str, display: str = "inline") -> str:
    """A formula as MathML; a space follows the name of a function."""
    return FUNCTION.sub(r'\g<0><mspace width="0.17em"/>', convert(formula, display=display))


class Blocks(Preprocessor):
    """Each line of a ```math block as a formula of its own."""

    def run(self, lines: list[str]) -> list[str]:
        def shown(match: re.Match[str]) -> str:
            lines = [
                rendered(line.strip(), "block")
                for line in match["formula"].splitlines()
                if line.strip()
            ]
            return (
                "\n"
                + self.md.htmlStash.store(f'<div class="formula">{"".join(lines)}</div>')
                + "\n"
            )

        return BLOCK.sub(shown, "\n".join(lines)).split("\n")


class Inline(InlineProcessor):
    """A formula within a line."""

    def handleMatch(self, m: re.Match[str], data: str) -> tuple[str, int, int]:  # type: ignore[override]  # noqa: N802
        return self.md.htmlStash.store(rendered(m[1])), m.start(0), m.end(0)


class Mathematics(Extension):
    """Both, for Python-Markdown."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802
        md.preprocessors.register(Blocks(md), "formula-blocks", BEFORE_FENCES)
        md.inlinePatterns.register(Inline(INLINE, md), "formulas", AFTER_CODE)


def on_config(config: Any) -> Any:
    """Add the extension to those of the site."""
    config.markdown_extensions.append(Mathematics())
    return config
