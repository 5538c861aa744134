"""How `fill`, `compare`, `dependence` and `mutants` run: texts in, answers printed as they are ready, files last."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
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
    **arguments: object,
) -> None:
    """Call `unmask.<verb>` on the texts and print its answers: by `show`, or as JSON, one line per text of a file.

    An answer is printed before the files that belong to it are written (see `one_or_many`), so that a full disk costs only these.
    """
    from unmask.cli import terminal

    given = options.read_texts(text, file)
    texts, many = (given, True) if isinstance(given, list) else ([given], False)
    console = terminal.console(at_least=terminal.USUAL)
    with ExitStack() as bar:
        report = bar.enter_context(terminal.progress(quiet=sys.stdout.isatty() if many else json))
        import unmask

        for number, found in enumerate(getattr(unmask, verb).each(texts, progress=report, **arguments)):
            ready = found.to_dict()
            if not many:
                bar.close()
            if json:
                terminal.print_json(ready, indent=None if many else 2)
            else:
                console.print(end="\n" if number else "")
                show(found, console)
