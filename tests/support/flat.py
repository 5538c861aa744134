"""Verbs called with flat options, as a command line has them."""

import os
from typing import Any

import unmask
from unmask.common.border.options import arguments


def train(data: Any = None, progress: Any = None, **options: Any) -> unmask.TrainingRun:
    """`unmask.train` with the fields of its groups beside its parameters; None is left out."""
    chosen = {name: value for name, value in options.items() if value is not None}
    return unmask.train(data, progress=progress, **arguments(unmask.train, chosen))


def translate(texts: Any, progress: Any = None, **options: Any) -> unmask.Translations:
    """`unmask.translate` with the options of its kernel, and of loading, beside its parameters."""
    if not isinstance(options["model"], str | os.PathLike):
        options.pop("device", None)
    return unmask.translate(texts, progress=progress, **arguments(unmask.translate, options))
