"""What the verbs that score texts share: types of arguments, and what needs a folder."""

from __future__ import annotations

from typing import Any, Literal

from unmask.common.errors import InputError, argument_name

Unit = Literal["nats", "bits"]
Long = Literal["refuse", "windows"]
Format = Literal["jsonl", "csv", "parquet"]


def refuse_without_folder(model: Any, engine: str, out: Any, format: str | None) -> None:
    """Raise for workers, or the format of a file, where no folder keeps what they write."""
    from unmask.models.sharing import is_shared

    if out is not None:
        return
    if is_shared(model, engine):
        raise InputError(
            "workers need a folder, where their rows are kept", use=f"give {argument_name('out')}"
        )
    if format is not None:
        raise InputError(
            f"is used only with {argument_name('out')}",
            argument="format",
            use=f"give {argument_name('out')}, or leave it out",
        )
