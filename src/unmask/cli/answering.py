"""How `fill`, `compare`, `dependence` and `mutants` run: texts in, answers printed as they are ready, files last."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from unmask.cli import options
from unmask.runs.lines import STANDARD_INPUT
from unmask.runs.outputs import output_file

if TYPE_CHECKING:
    from rich.console import Console

OUTPUTS = ("figure", "out")


def answer(verb: str, show: Callable[[Any, Console], None], given: dict[str, Any], **readers: Callable[[Any], object]) -> None:
    """Call `unmask.<verb>` on the texts and print its answers: by `show`, or as JSON, one line per text of a file.

    `given`: what the command was given by name, the text first; see `options.arguments`.
    An answer is printed before the files that belong to it are written (see `one_or_many`), so that a full disk costs only these.
    """
    from unmask.cli import terminal

    arguments, json = options.arguments(given, **readers), given["json"]
    text, file = arguments.pop(next(iter(given))), arguments.pop("file")
    for name in OUTPUTS:
        if given.get(name) is not None:
            output_file(name, given[name], (file, STANDARD_INPUT if text == "-" else None))
    found = options.read_texts(text, file)
    texts, many = (found, True) if isinstance(found, list) else ([found], False)
    console = terminal.console(at_least=terminal.USUAL)
    with ExitStack() as bar:
        report = bar.enter_context(terminal.progress(quiet=sys.stdout.isatty() if many else json))
        import unmask

        for number, one in enumerate(getattr(unmask, verb).each(texts, progress=report, **arguments)):
            ready = one.to_dict()
            if not many:
                bar.close()
            if json:
                terminal.print_json(ready, indent=None if many else 2)
            else:
                console.print(end="\n" if number else "")
                show(one, console)
