"""`unmask.sample`: texts from the energy model behind a masked language model, by Markov chains or decoders."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmask.arguments import checked
from unmask.checks import shown
from unmask.errors import InputError
from unmask.models.text.words import alphabet_tokens
from unmask.options.option import documented
from unmask.options.sampling import SampleOptions
from unmask.runs.files import user_path
from unmask.runs.folder import refuse_foreign
from unmask.runs.lines import plain_texts, source_name
from unmask.runs.outputs import output_folder
from unmask.runs.progress import Progress
from unmask.sampling.settings import SampleSettings

if TYPE_CHECKING:
    from unmask.models.masked_lm import MaskedLM
    from unmask.sampling.energy import UserTerm
    from unmask.sampling.run.result import SampleRun

PathLike = str | os.PathLike[str]


@documented(SampleOptions)
@checked
def sample(
    template: str | None = None,
    *,
    kernel: str = "mh",
    energy: str = "norm",
    length: int | Sequence[int] | None = None,
    chains: int = 64,
    sweeps: int = 100,
    seed: int = 0,
    burn_in: int = 0,
    thin: int = 1,
    init: PathLike | Sequence[str] | None = None,
    random_start: bool = False,
    allow: Mapping[int, Sequence[str]] | Sequence[str] | None = None,
    alphabet: PathLike | Sequence[str] | None = None,
    temperature: float | None = None,
    scan: str | None = None,
    block_size: int | None = None,
    block_shape: str | None = None,
    delayed: Sequence[int] | None = None,
    proposal_temperature: float | None = None,
    top_k: int | None = None,
    nucleus: float | None = None,
    ladder: Sequence[float] | None = None,
    hot: float | None = None,
    cold: float | None = None,
    joint: str | None = None,
    candidates: int | None = None,
    decoding_steps: int | None = None,
    schedule: str | None = None,
    decoding_temperature: float | None = None,
    gamma: float | None = None,
    tau: float | None = None,
    dependence: str | None = None,
    profile: Any = None,
    order: str | None = None,
    restart: float | None = None,
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
    chains_at_once: int | None = None,
    memory: float | str | None = None,
    progress: Progress | None = None,
) -> SampleRun:
    """Sample texts, and say how far to trust them (`.diagnosis`); arguments are the options of `unmask sample`.

    Without a template, texts have `length` blanks. An option that the chosen kernel does not use is refused.

    Arguments: help(unmask.sample)

    >>> run = unmask.sample("A [MASK] sat on the [MASK].", chains=2, sweeps=3, seed=0)
    >>> len(run.to_frame())
    6
    """
    given = locals()
    SampleOptions.given(given)
    if init is not None:
        given["init"] = read_init(init, chains)
    if alphabet is not None:
        given["alphabet"] = alphabet_tokens(alphabet)
    settings = SampleSettings.given(given)
    for term in user_terms:
        if not callable(term):
            raise InputError(f"user_terms has {shown(term)}, which is not a function: give functions of token ids")
    from unmask.models.masked_lm import MaskedLM, as_model
    from unmask.sampling.run.advance import draw_samples
    from unmask.sampling.run.diagnostics import diagnose, refuse_without_arviz
    from unmask.sampling.run.result import KIND

    refuse_without_arviz()
    if out is not None:
        refuse_foreign(output_folder("out", out, (init, alphabet, model)), KIND)

    reading, shared = (rename, lang, shift, mask_token), None
    if engine == "ray":
        from unmask.models.workers import for_workers
        from unmask.sampling.run.sharing import SharedChains

        lm, on_ray = for_workers(model, device, dtype, reading, workers)
        shared = SharedChains(settings, on_ray, chains_at_once, memory, tuple(user_terms))
    else:
        lm = as_model(model, device, dtype, *reading)
    run = draw_samples(
        settings,
        lm,
        out,
        name="bundled" if model is None else "in memory" if isinstance(model, MaskedLM) else str(model),
        chains_at_once=chains_at_once,
        memory=memory,
        user_terms=tuple(user_terms),
        progress=progress,
        shared=shared,
    )
    if run.folder is not None:
        diagnose(run)
    return run


def read_init(init: str | os.PathLike[str] | Sequence[str], most: int) -> tuple[str, ...]:
    """Texts to start from: those of a file, one per line or FASTA, or the texts themselves; the first `most` of them."""
    if isinstance(init, str | os.PathLike):
        path = user_path(init, "init")
        texts, where = list(plain_texts(path)), repr(source_name(path))
    elif not isinstance(init, Iterable):
        raise InputError(f"init {init!r} is neither a file nor a list of texts: give one of them")
    else:
        texts, where = [str(text).strip() for text in init if str(text).strip()], "init"
    if not texts:
        raise InputError(f"no text to start from: {where} has none; give one text per line")
    return tuple(texts[:most])
