"""`unmask.sample`: texts from the energy model behind a masked language model, by Markov chains or decoders."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from unmask.arguments import checked
from unmask.checks import shown
from unmask.errors import InputError
from unmask.runs.folder import refuse_foreign
from unmask.runs.outputs import output_folder
from unmask.runs.progress import Progress
from unmask.sampling.registry import EnergyKind, Method, entry_of
from unmask.sampling.settings import SampleSettings, Start

if TYPE_CHECKING:
    from unmask.models.masked_lm import MaskedLM
    from unmask.sampling.energy import UserTerm
    from unmask.sampling.run.result import SampleRun

PathLike = str | os.PathLike[str]


@checked
def sample(
    template: str | None = None,
    *,
    kernel: Method | str = "mh",
    energy: EnergyKind = "norm",
    length: int | Sequence[int] | None = None,
    chains: int = 64,
    sweeps: int = 100,
    seed: int = 0,
    burn_in: int = 0,
    thin: int = 1,
    start: Start | None = None,
    user_terms: Sequence[UserTerm] = (),
    out: PathLike | None = None,
    engine: str = "local",
    workers: int | None = None,
    model: MaskedLM | str | Path | None = None,
    device: str = "auto",
    dtype: str = "auto",
    rename: Mapping[str, str] | None = None,
    lang: str | None = None,
    shift: bool = False,
    mask_token: str | None = None,
    memory: float | str | None = None,
    progress: Progress | None = None,
) -> SampleRun:
    """Sample texts, and say how far to trust them (`.diagnosis`).

    Parameters
    ----------
    template
        A text with [MASK] where tokens are sampled; the rest is held. Without it, texts have `length` blanks.
    kernel
        What moves the chains, or a decoder: a name, or an object with its options, such as `unmask.Block(block_size=3)`.
    energy
        Which energy the chains sample.
    length
        Tokens per text, or several lengths such as 8,12,16; 12 by default.
    chains
        Chains, or texts decoded at once.
    sweeps
        How often each chain redraws all of its tokens.
    seed
        Seed of all random choices.
    burn_in
        First sweeps that are not kept.
    thin
        Keep every n-th sweep.
    start
        Where chains start, and which tokens they may hold.
    user_terms
        Functions from token ids (n, T) to n numbers that are added to the energy.
    out
        Keep the run in this folder; the same command continues a run that was stopped.
    memory
        For what the chains keep, such as 2GB or 0.5; the rest is computed again.

    >>> run = unmask.sample("A [MASK] sat on the [MASK].", chains=2, sweeps=3, seed=0)
    >>> len(run.to_frame())
    6
    """
    start = start or Start()
    for name, one, why in (
        ("template", template, "the template has its own length"),
        ("init", start.init, "starts have their own lengths"),
    ):
        if one not in (None, ()) and length is not None:
            raise InputError(f"{name} and length were both given, and {why}: leave one out")
    settings = SampleSettings(
        kernel=kernel if isinstance(kernel, Method) else entry_of(kernel)(),
        energy=energy,
        template=template,
        length=(12,) if length is None else (length,) if isinstance(length, int) else tuple(length),
        chains=chains,
        sweeps=sweeps,
        seed=seed,
        burn_in=burn_in,
        thin=thin,
        start=start,
    )
    if workers is not None and engine == "local":
        raise InputError("workers was given, which engine local does not use: leave it out, or use engine ray")
    for term in user_terms:
        if not callable(term):
            raise InputError(f"user_terms has {shown(term)}, which is not a function: give functions of token ids")
    from unmask.models.masked_lm import MaskedLM, as_model
    from unmask.sampling.run.advance import draw_samples
    from unmask.sampling.run.diagnostics import diagnose, refuse_without_arviz
    from unmask.sampling.run.result import KIND

    refuse_without_arviz()
    if out is not None:
        refuse_foreign(output_folder("out", out, (model,)), KIND)

    reading, shared = (rename, lang, shift, mask_token), None
    if engine == "ray":
        from unmask.models.workers import for_workers
        from unmask.sampling.run.sharing import SharedChains

        lm, on_ray = for_workers(model, device, dtype, reading, workers)
        shared = SharedChains(settings, on_ray, memory, tuple(user_terms))
    else:
        lm = as_model(model, device, dtype, *reading)
    run = draw_samples(
        settings,
        lm,
        out,
        name="bundled" if model is None else "in memory" if isinstance(model, MaskedLM) else str(model),
        memory=memory,
        user_terms=tuple(user_terms),
        progress=progress,
        shared=shared,
    )
    if run.folder is not None:
        diagnose(run)
    return run
