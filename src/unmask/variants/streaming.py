"""Scores of millions of variants in a run folder: part by part, killed and continued, in this process or on Ray.

Variants are sorted, so that neighbours share contexts, and cut into ranges of about CHUNK_WORK multiplications of the model, at
multiples of one power of two. A range gives one part, named by its first place in the sorted order. The ranges depend on the
list, the scores, the model and the kind of device only, so that one process and many give the same numbers. At the end
variants.parquet has all scores in the order of the list. Memory holds the list, one chunk and, at the end, the table.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from functools import partial
from os import PathLike
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.errors import InputError
from unmask.models.conditional_model import ConditionalModel
from unmask.runs.engine import Workers, each
from unmask.runs.files import write_table
from unmask.runs.folder import RunFolder
from unmask.runs.progress import Progress
from unmask.tables.candidates import MAX_PASSES
from unmask.variants.contexts import VARIANTS, Contexts, Pair

KIND = "mutants"
FILE = "variants.parquet"
CHUNK_WORK = {"cpu": 6 * 10**12, "cuda": 2 * 10**15}
"""Multiplications of one chunk: a minute or two of work on two cores, a quarter of one on a GPU, which an interrupt can lose."""
CHUNK_PASSES = 20_000
"""Of a model that does not say how much it multiplies."""
MOST_TOGETHER = 2**18
"""Variants of a chunk, and of a list whose passes are counted exactly before it is refused."""


def refuse_many(contexts: Contexts, variants: Int[Tensor, "n k"], force: bool) -> None:
    """Refuse more than MAX_PASSES passes, unless `force`."""
    passes = len(variants) * len(contexts.sites_read)
    if force or passes + contexts.most_parent_passes <= MAX_PASSES:
        return
    exact = len(variants) <= MOST_TOGETHER
    if exact and (passes := contexts.pass_count(variants)) <= MAX_PASSES:
        return
    count = f"{passes:,}" if exact else f"up to {passes:,}"
    raise InputError(
        f"the scores of {len(variants):,} variants need {count} passes of the model (limit {MAX_PASSES:,}): "
        "ask for fewer scores or variants, or use --force"
    )


def kept_scores(
    run: str | PathLike[str],
    contexts: Contexts,
    model_name: str | None,
    variants: Int[Tensor, "n k"],
    workers: Workers | None = None,
    load: Callable[[], ConditionalModel] | None = None,
    progress: Progress | None = None,
) -> dict[str, Float[Tensor, " n"]]:
    """`contexts.scores(variants)` in the folder `run`, where the same call continues after an interrupt.

    model_name   as the user gave it
    load         returns the model in a worker's process
    """
    model = contexts.model
    whole = hashlib.sha256(np.ascontiguousarray(variants.to(torch.int32).numpy()).tobytes())
    names = ("parent", "sites", "scores", "alphabet", "orders", "seed", "joint")
    settings = dict(zip(names, contexts.arguments, strict=True)) | {
        "model": model_name,
        "weights": model.fingerprint,
        "dtype": str(model.dtype).removeprefix("torch."),
        "variants": len(variants),
        "list": whole.hexdigest()[:16],
    }
    same = {"model": "weights"}
    with RunFolder(run, KIND, settings, model=model.fingerprint, same_content=same) as folder:
        return _scores_in_folder(folder, contexts, variants, workers, load, progress)


def _scores_in_folder(
    folder: RunFolder,
    contexts: Contexts,
    variants: Int[Tensor, "n k"],
    workers: Workers | None,
    load: Callable[[], ConditionalModel] | None,
    progress: Progress | None,
) -> dict[str, Float[Tensor, " n"]]:
    """Score the variants that have no row in the folder yet; then write FILE, and return its columns."""
    import pyarrow as pa

    n, names = len(variants), contexts.score_columns
    columns = pa.schema([pa.field("variant", pa.int64()), *(pa.field(name, pa.float64()) for name in names)])
    scores = {name: np.full(n, np.nan) for name in names}
    stored = folder.rows(columns)
    known = stored["variant"].to_numpy() - 1
    for name in names:
        scores[name][known] = stored[name].to_numpy()
    order = contexts.sorted(variants).numpy()
    tokens = variants.to(torch.int32).numpy()[order]
    left = np.flatnonzero(~np.isin(order, known))
    size = chunk_size(contexts, tokens, contexts.model.device.type if workers is None else workers.device)
    ends = np.flatnonzero((np.diff(left) > 1) | (np.diff(left // size) > 0)) + 1
    chunks = [chunk for chunk in np.split(left, ends) if len(chunk)]
    pairs, begun, finished = contexts.pairs(variants), time.monotonic(), 0

    def report(done: int, total: int, what: str = VARIANTS) -> None:
        """Variants among all, and how many per second; `done` are those of the chunk at work."""
        if progress:
            rate = (finished + done) / max(1e-9, time.monotonic() - begun)
            progress(n - len(left) + finished + done, n, f"{what} ({rate:,.0f} per second)")

    if progress:
        progress(n - len(left), n, VARIANTS)
    results: Iterator[tuple[int, dict[str, np.ndarray]]]
    if workers is None:
        contexts.know(pairs)
        results = ((i, _scored(contexts, tokens[chunk], report)) for i, chunk in enumerate(chunks))
    else:
        items = (tokens[chunk] for chunk in chunks)
        results = each(_scored, items, workers, partial(_of_worker, load, contexts.arguments, pairs))
    for i, part in results:
        numbers = order[chunks[i]]
        folder.store(pa.table({"variant": numbers + 1, **part}, schema=columns), columns, f"part-{chunks[i][0]:09d}")
        for name in names:
            scores[name][numbers] = part[name]
        finished += len(numbers)
        report(0, 0)
    write_table(folder.path / FILE, pa.table({"variant": np.arange(n) + 1, **scores}, schema=columns))
    return {name: torch.from_numpy(values) for name, values in scores.items()}


def chunk_size(contexts: Contexts, tokens: Int[np.ndarray, "n k"], device: str) -> int:
    """The largest power of two for which the first variants of the sorted list are at most CHUNK_WORK."""
    work = contexts.model.multiplications(len(contexts.ids))
    most = CHUNK_PASSES if work is None else max(1, CHUNK_WORK[device] // work)
    size = 1
    while size < min(len(tokens), MOST_TOGETHER):
        if contexts.context_count(torch.from_numpy(tokens[: 2 * size])) > most:
            break
        size *= 2
    return size


def _of_worker(load: Callable[[], ConditionalModel] | None, arguments: tuple[Any, ...], pairs: list[Pair]) -> Contexts:
    assert load is not None
    contexts = Contexts(load(), *arguments)
    contexts.know(pairs)
    return contexts


def _scored(contexts: Contexts, tokens: Int[np.ndarray, "n k"], progress: Progress | None = None) -> dict[str, np.ndarray]:
    return {name: values.numpy() for name, values in contexts.scores(torch.from_numpy(tokens), progress).items()}
