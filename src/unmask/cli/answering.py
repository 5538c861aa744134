"""How `fill`, `compare`, `dependence` and `mutants` run: texts in, answers printed as they are ready, files last."""

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
    out: Path | None = None,
    **arguments: object,
) -> None:
    """Call `unmask.<verb>` on the texts and print its answers: by `show`, or as JSON, one line per text of a file.

    The paths of a figure and of a table are checked before any work, and both are written when the answer is printed.
    """
    from unmask.cli import terminal

    given = options.read_texts(text, file)
    texts, many = (given, True) if isinstance(given, list) else ([given], False)
    console = terminal.console(at_least=terminal.USUAL)
    found, ready = None, None
    with terminal.progress(quiet=sys.stdout.isatty() if many else json) as report:
        import unmask
        from unmask.answers.mutants import table_path
        from unmask.answers.plots import figure_path, save_figure

        kept = None if out is None else table_path(out, len(texts))
        drawn = None if figure is None else figure_path(figure, len(texts))
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
    if kept is not None and found is not None:
        found.write(kept)
    if drawn is not None and found is not None:
        save_figure(found.figure, drawn)
