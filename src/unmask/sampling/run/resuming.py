"""What a run takes over from its folder when it goes on, and what it compares.

The plan is taken over: planned again, it would depend on the memory that is free now. The user's terms are functions, which a
folder cannot hold: their values at texts of the checkpoint are compared.
"""

from __future__ import annotations

import os
from pathlib import Path

import torch

from unmask.errors import InputError
from unmask.models.masked_lm import MaskedLM
from unmask.runs.files import user_path
from unmask.runs.folder import begun
from unmask.sampling.engine.memory import WORDS
from unmask.sampling.run.groups import Planned
from unmask.sampling.run.result import KIND, Snapshot
from unmask.sampling.settings import SampleSettings
from unmask.sampling.target import Target

USER_TERMS = {"user_independent": "independent", "user_now": "ids"}
"""Arrays of a checkpoint with the user's terms, and the array of their texts."""


def stored_plan(out: str | os.PathLike[str] | None, settings: SampleSettings, model: MaskedLM) -> Planned | None:
    """The plan of the run in a folder; None where these settings and this model do not continue one."""
    stored = None if out is None else begun(user_path(out, "out"), KIND)
    if stored is None or stored.get("weights") != model.fingerprint:
        return None
    if any(stored.get(name) != value for name, value in settings.to_dict().items() if name != "sweeps"):
        return None
    keeps, sizes = stored.get("keeps"), stored.get("chains_at_once")
    if keeps not in WORDS or not isinstance(sizes, list) or not all(isinstance(size, int) and size > 0 for size in sizes):
        return None
    return Planned(keeps, tuple(sizes))


def refuse_other_terms(folder: Path, target: Target, saved: Snapshot) -> None:
    """Compare the user's terms with the values that a checkpoint has of them; other functions may have the same names."""
    for name, texts in USER_TERMS.items():
        if name not in saved:
            continue
        now = target.energy.from_user(torch.from_numpy(saved[texts]).to(target.device)).cpu()
        if not torch.allclose(now, torch.from_numpy(saved[name]), rtol=1e-4, atol=1e-6):
            raise InputError(
                f"{str(folder)!r} holds a run whose user_terms have other values at its texts than those given: "
                "give the same functions to continue it, or another --out folder"
            )
