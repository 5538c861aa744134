"""How `fill`, `compare` and `dependence` run: texts in, answers printed as they are ready, a figure last."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmask.cli import options

if TYPE_CHECKING:
    from rich.console import Console


def answer(
    verb: str,
    show: Callable[[Any, Console], None],
    text: str | None,
    file: Path | None,
    json: bool,
    figure: Path | None = None,
    **arguments: object,
) -> None:
    """Call `unmask.<verb>` on the texts and print its answers: by `show`, or as JSON, one line per text of a file.

    The figure's path is checked before any work, and the figure drawn when the answer is printed.
    """
    from unmask.cli import terminal

    given = options.read_texts(text, file)
    texts, many = (given, True) if isinstance(given, list) else ([given], False)
    console = terminal.console(at_least=terminal.USUAL)
    found, ready = None, None
    with terminal.progress(quiet=sys.stdout.isatty() if many else json) as report:
        import unmask
        from unmask.answers.plots import figure_path, save_figure

        where = None if figure is None else figure_path(figure, len(texts))
        for number, found in enumerate(getattr(unmask, verb).each(texts, progress=report, **arguments)):
            ready = found.to_dict()
            if many and json:
                terminal.print_json(ready, indent=None)
            elif many:
                console.print(end="\n" if number else "")
                show(found, console)
    if not many and json:
        terminal.print_json(ready)
    elif not many:
        show(found, console)
    if where is not None and found is not None:
        save_figure(found.figure, where)
