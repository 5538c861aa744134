"""`unmask.sample`: texts from the energy model behind a masked language model, by Markov chains or decoders."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmask.arguments import checked
from unmask.checks import shown, whole
from unmask.errors import InputError
from unmask.models.alphabet import alphabet_tokens
from unmask.runs.files import user_path
from unmask.runs.folder import refuse_foreign
from unmask.runs.lines import text_lines, told
from unmask.runs.outputs import output_folder
from unmask.runs.progress import Progress
from unmask.sampling.settings import LONGEST, MOST_CHAINS, SampleSettings

if TYPE_CHECKING:
    from unmask.models.masked_lm import MaskedLM
    from unmask.sampling.energy import UserTerm
    from unmask.sampling.run import SampleRun

PathLike = str | os.PathLike[str]


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
    order: str | None = None,
    restart: float | None = None,
    user_terms: Sequence[UserTerm] = (),
    out: PathLike | None = None,
    model: MaskedLM | str | Path | None = None,
    device: str = "auto",
    dtype: str = "auto",
    rename: Mapping[str, str] | None = None,
    chains_at_once: int | None = None,
    memory: float | str | None = None,
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
    memory           for what the chains keep: bytes, "2GB", or a share such as 0.5; what does not fit is computed again

    Options left out take the defaults of `SampleSettings`. One that the chosen kernel does not use is refused.

    >>> run = unmask.sample("A [MASK] sat on the [MASK].", chains=2, sweeps=3, seed=0)
    >>> len(run.to_frame())
    6
    """
    settings = SampleSettings.given(
        kernel=kernel,
        energy=energy,
        length=_listed("length", length),
        chains=chains,
        sweeps=sweeps,
        seed=seed,
        burn_in=burn_in,
        thin=thin,
        init=None if init is None else read_init(init, whole("chains", chains, 1, MOST_CHAINS)),
        random_start=random_start,
        template=template,
        allow=None if allow is None else read_allow(allow),
        alphabet=None if alphabet is None else alphabet_tokens(alphabet),
        temperature=temperature,
        scan=scan,
        block_size=block_size,
        block_shape=block_shape,
        delayed=_listed("delayed", delayed),
        proposal_temperature=proposal_temperature,
        top_k=top_k,
        nucleus=nucleus,
        ladder=_listed("ladder", ladder),
        hot=hot,
        cold=cold,
        joint=joint,
        candidates=candidates,
        decoding_steps=decoding_steps,
        schedule=schedule,
        decoding_temperature=decoding_temperature,
        gamma=gamma,
        order=order,
        restart=restart,
    )
    for term in user_terms:
        if not callable(term):
            raise InputError(f"user_terms has {shown(term)}, which is not a function: give functions of token ids")
    from unmask.models.given import as_model
    from unmask.models.masked_lm import MaskedLM
    from unmask.sampling.diagnostics import diagnose
    from unmask.sampling.draw import draw
    from unmask.sampling.run_folder import KIND

    if out is not None:
        refuse_foreign(output_folder("out", out, (init, alphabet, model)), KIND)

    run = draw(
        settings,
        as_model(model, device, dtype, rename),
        out,
        name="bundled" if model is None else "in memory" if isinstance(model, MaskedLM) else str(model),
        chains_at_once=chains_at_once,
        memory=memory,
        user_terms=tuple(user_terms),
        progress=progress,
    )
    if run.folder is not None:
        diagnose(run)
    return run


def read_init(init: str | os.PathLike[str] | Sequence[str], most: int) -> tuple[str, ...]:
    """Texts to start from: those of a file, one per line, or the texts themselves; the first `most` of them."""
    if isinstance(init, str | os.PathLike):
        path = user_path(init, "init")
        texts = [line.strip() for _, line in text_lines(path) if line.strip()]
        where = repr(told(path))
    elif not isinstance(init, Iterable):
        raise InputError(f"init {init!r} is neither a file nor a list of texts: give one of them")
    else:
        texts, where = [str(text).strip() for text in init if str(text).strip()], "init"
    if not texts:
        raise InputError(f"no text to start from: {where} has none; give one text per line")
    return tuple(texts[:most])


def read_allow(allow: Mapping[int, Sequence[str]] | Sequence[str]) -> tuple[tuple[int, tuple[str, ...]], ...]:
    """Allowed tokens by position; a position that is named twice allows both."""
    found: dict[int, dict[str, None]] = {}
    given = [allow] if isinstance(allow, str) else allow
    items = given.items() if isinstance(given, Mapping) else [_position_and_tokens(item) for item in given]
    for position, tokens in items:
        named = [tokens] if isinstance(tokens, str) else tokens
        place = whole("the position of allow", position, 0, LONGEST)
        found.setdefault(place, {}).update(dict.fromkeys(str(token) for token in named))
    return tuple((position, tuple(tokens)) for position, tokens in sorted(found.items()))


def _position_and_tokens(text: Any) -> tuple[int, list[str]]:
    """ "3=red,green" as (3, ["red", "green"])."""
    position, found, tokens = str(text).partition("=")
    if not found or not position.strip().isdecimal() or len(position) > 9:
        raise InputError(f"allow {text!r} is not understood: give a position and tokens, such as 3=red,green")
    return int(position), [token.strip() for token in tokens.split(",") if token.strip()]


def _listed(name: str, values: object) -> tuple[Any, ...] | None:
    """Several values as a tuple; one length is several lengths, too."""
    if values is None:
        return None
    if name == "length" and isinstance(values, Integral):
        return (int(values),)
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise InputError(f"{name} {values!r} is not a list of numbers: give one, such as [1, 3]")
    return tuple(values)
