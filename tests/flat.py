"""Verbs called with flat options, as a command line has them; and command lines themselves."""

from __future__ import annotations

import io
import os
from contextlib import redirect_stderr, redirect_stdout
from typing import Any, NamedTuple

import unmask
from unmask.cli import app
from unmask.signature import arguments


def train(corpus: Any = None, progress: Any = None, **options: Any) -> unmask.TrainingRun:
    """`unmask.train` with the fields of its groups beside its parameters; None is left out."""
    given = {name: value for name, value in options.items() if value is not None}
    return unmask.train(corpus, progress=progress, **arguments(unmask.train, given))


def translate(texts: Any, progress: Any = None, **options: Any) -> unmask.Translations:
    """`unmask.translate` with the options of its kernel, and of loading, beside its parameters."""
    if not isinstance(options["model"], str | os.PathLike):
        options.pop("device", None)
    return unmask.translate(texts, progress=progress, **arguments(unmask.translate, options))


class Ended(NamedTuple):
    """Exit code, standard output and standard error of a command."""

    code: int
    out: str
    err: str


def command(*words: object) -> Ended:
    """Run `unmask` with these words in this process."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = app.run([str(word) for word in words])
    return Ended(code, out.getvalue(), err.getvalue())
