"""`unmask.sample`: texts from the energy model behind a masked language model, by Markov chains or decoders."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmask.errors import InputError
from unmask.models.alphabet import alphabet_tokens
from unmask.runs.progress import Progress
from unmask.sampling.settings import MOST_CHAINS, SampleSettings

if TYPE_CHECKING:
    from unmask.models.masked_lm import MaskedLM
    from unmask.sampling.energy import UserTerm
    from unmask.sampling.run import SampleRun

PathLike = str | os.PathLike[str]


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
    order: str | None = None,
    user_terms: Sequence[UserTerm] = (),
    out: PathLike | None = None,
    model: MaskedLM | str | Path | None = None,
    device: str = "auto",
    dtype: str = "auto",
    rename: Mapping[str, str] | None = None,
    chains_at_once: int | None = None,
    progress: Progress | None = None,
) -> SampleRun:
    """Sample texts, and say how far to trust them (`.diagnosis`); arguments are the options of `unmask sample`.

    template         a text with [MASK] where tokens are sampled; the rest is held. Without one, texts of `length` blanks
    kernel           what moves the chains, or a decoder: a name of `unmask.sampling.registry.KERNELS`
    length           free tokens of a text (12), or several lengths that the chains take in turn
    init             texts to start from, or a file with one per line; otherwise blanks are filled one by one
    allow            tokens allowed at positions: {3: ["red", "green"]} or ["3=red,green"]; [CLS] is position 0
    alphabet         tokens allowed at every site: letters, words, or a file of them
    user_terms       functions from token ids (n, T) to n numbers that are added to the energy
    out              keep the run in this folder, with its diagnosis and figures; the same call continues a run that stopped
    rename           names of tensors in the model's file, and the names that the model knows them by
    chains_at_once   chains side by side; changes memory and speed, not the samples

    Options left out take the defaults of `SampleSettings`. One that the chosen kernel does not use is refused.
    """
    from unmask.sampling.starts import read_init

    settings = SampleSettings.given(
        kernel=kernel,
        energy=energy,
        length=None if length is None else _several(length),
        chains=chains,
        sweeps=sweeps,
        seed=seed,
        burn_in=burn_in,
        thin=thin,
        init=None if init is None else read_init(init, chains if isinstance(chains, int) else MOST_CHAINS),
        random_start=random_start,
        template=template,
        allow=None if allow is None else read_allow(allow),
        alphabet=None if alphabet is None else alphabet_tokens(alphabet),
        temperature=temperature,
        scan=scan,
        block_size=block_size,
        block_shape=block_shape,
        delayed=None if delayed is None else tuple(delayed),
        proposal_temperature=proposal_temperature,
        top_k=top_k,
        nucleus=nucleus,
        ladder=None if ladder is None else tuple(ladder),
        hot=hot,
        cold=cold,
        joint=joint,
        candidates=candidates,
        decoding_steps=decoding_steps,
        schedule=schedule,
        decoding_temperature=decoding_temperature,
        order=order,
    )
    from unmask.models.given import as_model
    from unmask.models.masked_lm import MaskedLM
    from unmask.sampling.diagnostics import diagnose
    from unmask.sampling.draw import draw

    run = draw(
        settings,
        as_model(model, device, dtype, rename),
        out,
        name="bundled" if model is None else "in memory" if isinstance(model, MaskedLM) else str(model),
        chains_at_once=chains_at_once,
        user_terms=tuple(user_terms),
        progress=progress,
    )
    if run.folder is not None:
        diagnose(run)
    return run


def read_allow(allow: Mapping[int, Sequence[str]] | Sequence[str]) -> tuple[tuple[int, tuple[str, ...]], ...]:
    """Allowed tokens by position; a position that is named twice allows both."""
    found: dict[int, dict[str, None]] = {}
    items = allow.items() if isinstance(allow, Mapping) else [_position_and_tokens(item) for item in allow]
    for position, tokens in items:
        named = [tokens] if isinstance(tokens, str) else tokens
        found.setdefault(int(position), {}).update(dict.fromkeys(str(token) for token in named))
    return tuple((position, tuple(tokens)) for position, tokens in sorted(found.items()))


def _position_and_tokens(text: Any) -> tuple[int, list[str]]:
    """ "3=red,green" as (3, ["red", "green"])."""
    position, found, tokens = str(text).partition("=")
    if not found or not position.strip().isdecimal() or len(position) > 9:
        raise InputError(f"allow {text!r} is not understood: give a position and tokens, such as 3=red,green")
    return int(position), [token.strip() for token in tokens.split(",") if token.strip()]


def _several(length: int | Sequence[int]) -> tuple[int, ...]:
    return tuple(length) if isinstance(length, Sequence) else (length,)
