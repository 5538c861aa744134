"""Scores of millions of variants in a run folder: part by part, killed and continued, in this process or on Ray.

Variants are sorted, so that neighbours share contexts, and cut into ranges of about CHUNK_WORK multiplications of the model, at
multiples of one power of two. A range gives one part, named by its first place in the sorted order. The ranges depend on the
list, the scores, the model and the kind of device only, so that one process and many give the same numbers. At the end
variants.parquet has all scores in the order of the list. Memory holds the list, one chunk and, at the end, the table.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.errors import InputError
from unmask.models.conditional_model import ConditionalModel
from unmask.models.workers import Workers
from unmask.runs.engines import results
from unmask.runs.folder import RunFolder, read_rows
from unmask.runs.progress import Progress
from unmask.scoring.results import write_rows
from unmask.tables.candidates import MAX_PASSES
from unmask.variants.contexts import VARIANTS, Contexts, Pair

if TYPE_CHECKING:
    import pyarrow

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
    run: str | Path,
    contexts: Contexts,
    model_name: str | None,
    variants: Int[Tensor, "n k"],
    workers: Workers | None = None,
    progress: Progress | None = None,
) -> dict[str, Float[Tensor, " n"]]:
    """`contexts.scores(variants)` in the folder `run`, where the same call continues after an interrupt.

    model_name   as the user gave it
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
    with RunFolder(run, KIND, settings, model=model.fingerprint, same_content=same, option="run") as folder:
        return _scores_in_folder(folder, contexts, variants, workers, progress)


def _scores_in_folder(
    folder: RunFolder,
    contexts: Contexts,
    variants: Int[Tensor, "n k"],
    workers: Workers | None,
    progress: Progress | None,
) -> dict[str, Float[Tensor, " n"]]:
    """Score the variants that have no row in the folder yet; then write FILE, and return its columns."""
    columns = _schema(contexts)
    order = contexts.sorted(variants)
    tokens = variants.to(torch.int32)[order].numpy()
    device = contexts.model.device.type if workers is None else workers.device
    chunks = _Chunks(tokens, chunk_size(contexts, tokens, device), _done(folder, columns))
    report = _rate(progress, len(tokens) - chunks.left, len(tokens))
    pairs, finished = contexts.pairs(variants), 0

    def store(start: int, scores: dict[str, np.ndarray]) -> int:
        import pyarrow as pa

        numbers = order[start : start + len(next(iter(scores.values())))].numpy() + 1
        folder.store(pa.table({"variant": numbers, **scores}, schema=columns), columns, f"part-{start:09d}")
        return len(numbers)

    if workers is None:
        contexts.know(pairs)
        for start, part in chunks:
            finished += store(start, _scored(contexts, part, partial(report, finished)))
            report(finished, 0, 0)
    else:
        for _, scored in results(workers.pool(partial(_worker, contexts.arguments, pairs))(chunks)):
            finished += store(*scored)
            report(finished, 0, 0)
    return _whole(folder, columns, len(tokens))


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


class _Chunks(Sequence[tuple[int, np.ndarray]]):
    """What is left to do: (place of the first, token ids) of each range of the sorted list, cut at multiples of `size`."""

    def __init__(self, tokens: Int[np.ndarray, "n k"], size: int, done: Sequence[range]) -> None:
        self.tokens = tokens
        self.ranges: list[range] = []
        start = 0
        for known in [*sorted(done, key=lambda part: part.start), range(len(tokens), len(tokens))]:
            while start < known.start:
                stop = min(known.start, (start // size + 1) * size)
                self.ranges.append(range(start, stop))
                start = stop
            start = max(start, known.stop)
        self.left = sum(map(len, self.ranges))

    def __len__(self) -> int:
        return len(self.ranges)

    def __getitem__(self, place: Any) -> Any:
        part = self.ranges[place]
        return part.start, self.tokens[part.start : part.stop]


def _worker(
    arguments: tuple[Any, ...], pairs: list[Pair], model: ConditionalModel
) -> Callable[[tuple[int, np.ndarray]], tuple[int, dict[str, np.ndarray]]]:
    contexts = Contexts(model, *arguments)
    contexts.know(pairs)
    return lambda chunk: (chunk[0], _scored(contexts, chunk[1]))


def _scored(contexts: Contexts, tokens: Int[np.ndarray, "n k"], progress: Progress | None = None) -> dict[str, np.ndarray]:
    return {name: values.numpy() for name, values in contexts.scores(torch.from_numpy(tokens), progress).items()}


def _schema(contexts: Contexts) -> pyarrow.Schema:
    import pyarrow as pa

    scores = [pa.field(column, pa.float64()) for column in contexts.score_columns]
    return pa.schema([pa.field("variant", pa.int64()), *scores])


def _done(folder: RunFolder, columns: pyarrow.Schema) -> list[range]:
    """The ranges of the sorted list that are stored."""
    starts = [int(part.name.rpartition("-")[2]) for part in folder.parts()]
    return [range(a, a + len(read_rows([part], columns))) for a, part in zip(starts, folder.parts(), strict=True)]


def _rate(progress: Progress | None, already: int, total: int) -> Callable[..., None]:
    """Reports variants among all, and how many per second; called with those finished, and those of the chunk at work."""
    begun = time.monotonic()

    def report(finished: int, done: int, of: int, what: str = VARIANTS) -> None:
        if progress:
            rate = (finished + done) / max(1e-9, time.monotonic() - begun)
            progress(already + finished + done, total, f"{what} ({rate:,.0f} per second)")

    if progress:
        progress(already, total, VARIANTS)
    return report


def _whole(folder: RunFolder, columns: pyarrow.Schema, n: int) -> dict[str, Float[Tensor, " n"]]:
    """All scores in the order of the list, written to FILE too."""
    import pyarrow as pa

    names = columns.names[1:]
    scores = {name: np.full(n, np.nan) for name in names}
    for part in folder.parts():
        rows = read_rows([part], columns)
        places = rows["variant"].to_numpy() - 1
        for name in names:
            scores[name][places] = rows[name].to_numpy()

    def tables() -> Iterator[pyarrow.Table]:
        for start in range(0, n, MOST_TOGETHER):
            stop = min(n, start + MOST_TOGETHER)
            values = {name: scores[name][start:stop] for name in names}
            yield pa.table({"variant": np.arange(start, stop) + 1, **values}, schema=columns)

    write_rows(folder.path / FILE, tables(), columns, "parquet")
    return {name: torch.from_numpy(values) for name, values in scores.items()}
