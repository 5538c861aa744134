"""`evaluate`: load, choose pairs, measure or resume, report."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from unmask.arguments import checked
from unmask.errors import InputError
from unmask.evaluation.measure import KIND, InBatches, Measurer, make_plan, measure_plan, measured_on_ray
from unmask.evaluation.table import Evaluation
from unmask.joints.registry import PUBLISHED_STEPS, all_named
from unmask.models.masked_lm import MaskedLM, as_model
from unmask.models.text.words import alphabet_ids, alphabet_tokens
from unmask.models.workers import for_workers, refuse_loaded
from unmask.options.option import documented
from unmask.options.scoring import EvaluateOptions
from unmask.runs.folder import refuse_foreign
from unmask.runs.outputs import output_folder
from unmask.runs.progress import Progress


@documented(EvaluateOptions)
@checked
def evaluate(
    data: str | os.PathLike[str] | Sequence[str],
    *,
    model: MaskedLM | str | Path | None = None,
    scheme: str = "random",
    pairs: int = 1000,
    seed: int = 0,
    joints: str | Sequence[str] = "all",
    arnold_gokhale_steps: int | None = None,
    support: str = "regular",
    alphabet: str | os.PathLike[str] | Sequence[str] | None = None,
    out: str | os.PathLike[str] | None = None,
    engine: str = "local",
    workers: int | None = None,
    device: str = "auto",
    dtype: str = "auto",
    memory: str | float | None = None,
    rename: Mapping[str, str] | None = None,
    lang: str | None = None,
    shift: bool = False,
    mask_token: str | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Measure every construction on pairs of tokens: U-PPL, P-PPL, A-KL and G-KL, as in Table 1 of the paper.

    A pair that fails is listed in the result and left out of the table.

    Arguments: help(unmask.evaluate)

    >>> texts, words = ["The cat sat on the mat.", "The dog sat on the bed."], "cat,dog,sat,lay,mat,bed"
    >>> unmask.evaluate(texts, pairs=2, joints="product,chain", alphabet=words).pairs
    2
    """
    options = EvaluateOptions.given(locals())
    constructions = [construction.name for construction in all_named(options.joints)]
    if alphabet is not None and support != "regular":
        raise InputError(f"alphabet and support {support} exclude each other: leave one out")
    if arnold_gokhale_steps is not None and PUBLISHED_STEPS not in constructions:
        raise InputError(
            f"arnold_gokhale_steps was given, but arnold_gokhale is not among {', '.join(constructions)}: "
            "add it, or leave the steps out"
        )
    tokens = None if alphabet is None else list(alphabet_tokens(options.alphabet))
    if engine == "ray":
        refuse_loaded(model)
    folder = None if out is None else output_folder("out", out, (data, alphabet, model))
    if folder is not None:
        refuse_foreign(folder, KIND)
    reading, on_workers = (rename, lang, shift, mask_token), None
    if engine == "local":
        lm = as_model(model, device, dtype, *reading)
    else:
        lm, on_workers = for_workers(model, device, dtype, reading, workers)
    regular = lm.regular_ids if tokens is None else tuple(sorted(alphabet_ids(lm.words, tokens)))
    measured = (constructions, arnold_gokhale_steps, None if support == "all" else regular)
    here = Measurer(lm, *measured) if on_workers is None else None
    if here is not None:
        here.rehearse()
    plan = make_plan(data, lm, regular, scheme, options.pairs, options.seed)
    about = {
        "dtype": str(lm.dtype).removeprefix("torch."),
        "device": lm.device.type if on_workers is None else on_workers.device,
        "model": "bundled" if model is None else "a loaded model" if isinstance(model, MaskedLM) else os.fspath(model),
        "weights": lm.fingerprint,
        "constructions": constructions,
        "arnold_gokhale_steps": arnold_gokhale_steps,
        "support": support,
        "alphabet": tokens,
    }
    plan = replace(plan, settings={**about, **plan.settings})
    longest = max((len(pair.ids) for pair in plan.pairs), default=0)
    if here is not None:
        return measure_plan(plan, InBatches(here, memory, longest), folder, progress)
    assert on_workers is not None
    return measure_plan(plan, partial(measured_on_ray, on_workers, (*measured, memory, longest)), folder, progress)
