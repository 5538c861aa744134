"""The name that was meant, where a name is not known."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

FAMILIAR = {
    "top_k": "top",
    "k": "top",
    "n": "top",
    "num_samples": "chains",
    "num_return_sequences": "chains",
    "metric": "score",
    "metrics": "score",
    "method": "construction",
    "joint": "construction",
    "joints": "constructions",
    "data": "texts",
    "sentences": "texts",
    "model_name": "model",
    "checkpoint": "model",
    "output": "out",
    "output_dir": "out",
    "prompt": "template",
    "out": "save",
    "steps": "sweeps",
    "batch_size": "memory",
    "pairs": "minimal_pairs",
    "decoding_steps": "passes",
    "decoder": "kernel",
    "decoding_temperature": "temperature",
}
"""Names that other tools have for arguments of ours; used only where the function has ours and
not theirs.
"""
OF_OTHER_METHODS = {
    "temperature": ("energy_temperature", "proposal_temperature"),
    "energy_temperature": ("temperature",),
    "proposal_temperature": ("temperature",),
    "passes": ("sets",),
    "sets": ("passes",),
}
"""Options of some methods, and what is meant where a method does not have them."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is meant: what other tools' `name` is called here, or the one that is
    written most like it.
    """
    names = list(known)
    familiar = FAMILIAR.get(name)
    if familiar in names:
        return familiar
    close = get_close_matches(name, names, n=1)
    return close[0] if close else None
