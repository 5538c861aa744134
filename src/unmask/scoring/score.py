"""`score`: sentences in, numbers out, by named definitions; for files of any size, and for minimal pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from unmask.arguments import checked
from unmask.errors import InputError
from unmask.models.masked_lm import MaskedLM, as_model
from unmask.models.workers import for_workers
from unmask.options.option import documented
from unmask.options.scoring import ScoreOptions
from unmask.runs.files import write_json
from unmask.runs.folder import RunFolder, refuse_foreign
from unmask.runs.outputs import output_folder
from unmask.runs.progress import Progress
from unmask.scoring.batch import ScoreSettings
from unmask.scoring.registry import DEFAULT
from unmask.scoring.results import PairScores, Scores, compare_pairs
from unmask.scoring.rows import RowShape, check_format
from unmask.scoring.run import count_and_hash, run_in_folder, stream
from unmask.scoring.texts import Item, Texts, items_again, pairs_of

KIND = "score"
NO_TEXT = "there is no text to score: give at least one"


@documented(ScoreOptions)
@checked
def score(
    texts: Texts | None = None,
    score: str | list[str] | tuple[str, ...] = DEFAULT,
    *,
    pairs: str | Path | Iterable[str | Path | Mapping[str, Any]] | None = None,
    model: MaskedLM | str | Path | None = None,
    rows: str = "texts",
    tokens: bool = False,
    unit: str = "nats",
    long: str = "refuse",
    input: str | None = None,
    field: str | None = None,
    exact_tokens: int | None = None,
    orders: int | None = None,
    joint: str | None = None,
    candidates: int | None = None,
    energy: str | None = None,
    chains: int | None = None,
    anneals: int | None = None,
    seed: int | None = None,
    out: str | Path | None = None,
    format: str = "jsonl",
    engine: str = "local",
    workers: int | None = None,
    device: str = "auto",
    dtype: str = "auto",
    rename: Mapping[str, str] | None = None,
    lang: str | None = None,
    shift: bool = False,
    mask_token: str | None = None,
    sink: Callable[[Mapping[str, Any]], None] | None = None,
    progress: Progress | None = None,
) -> Scores | PairScores:
    """Scores of texts, or of minimal pairs; `unmask.scoring.registry.SCORES` has their names and definitions.

    With `out`, rows are kept in that folder as they come, the same call continues after an interrupt, and at the end there is
    scores.jsonl, scores.csv or scores.parquet (`format`); for pairs also accuracy.json.

    Arguments: help(unmask.score)

    >>> found = unmask.score(["The cats sit here.", "The cats sits here."])
    >>> found.rows[0]["pll"] > found.rows[1]["pll"]
    True
    """
    settings = ScoreOptions.given(locals()).part(ScoreSettings)
    shape = RowShape(rows, unit, tokens)
    if (texts is None) == (pairs is None):
        given_both = "neither texts nor pairs were given" if texts is None else "texts and pairs were both given"
        raise InputError(f"{given_both}: give one of the two")
    if pairs is not None and (rows != "texts" or tokens or sink is not None):
        raise InputError("minimal pairs are compared by whole sentences: leave out rows, tokens and sink")
    if tokens and rows != "texts":
        raise InputError(f"tokens within rows and rows per {rows[:-1]} were both asked for: choose one")
    if engine == "ray" and out is None:
        raise InputError("engine ray needs an out folder, where its workers' rows are kept: give one")
    for name, value in (("input", input), ("field", field)):
        if value is not None and not isinstance(texts, Path):
            raise InputError(f"{name} {value} says how a file is read, and no file was given: leave it out")
    check_format(format, tokens, on_stream=False)
    if out is not None:
        files = texts if isinstance(texts, Path) else None
        refuse_foreign(output_folder("out", out, (files, pairs, model)), KIND)
    listed = None if pairs is None else list(pairs_of(pairs))
    given: Texts | list[Item] = (
        [sentence for pair in listed or () for sentence in (pair.good, *pair.bad)] if texts is None else texts
    )
    source = items_again(given, input, field, keep=out is not None)
    total, identity = count_and_hash(source) if not isinstance(source, Iterator) else (0, "")
    if not total and not isinstance(source, Iterator):
        raise InputError(NO_TEXT)

    reading, model_of_workers = (rename, lang, shift, mask_token), None
    if engine == "ray":
        lm, model_of_workers = for_workers(model, device, dtype, reading)
    else:
        lm = as_model(model, device, dtype, *reading)
    if out is None:
        kept: list[dict[str, Any]] = []
        take = kept.append if sink is None else sink
        parts = stream(lm, source, settings, shape, total, progress)
        if (first := next(parts, None)) is None:
            raise InputError(NO_TEXT)
        for part in chain([first], parts):
            for row in part:
                take(row)
        found = Scores(settings, shape, tuple(kept))
    else:
        known = lm.fingerprint
        asked: dict[str, Any] = settings.to_dict() | {"model": None if model is None else _shown(model), "weights": known}
        asked |= {"texts": identity, "dtype": dtype, "rows": rows, "tokens": tokens, "unit": unit, "written_as": format}
        with RunFolder(out, KIND, asked, model=known, same_content={"model": "weights"}) as folder:
            run_in_folder(folder, lm, source, settings, shape, format, total, model_of_workers, workers, progress)
            found = Scores(settings, shape, folder=folder.path)
    if listed is None:
        return found
    compared = compare_pairs(listed, found.rows, settings.scores, unit)
    if found.folder is not None:
        write_json(found.folder / "accuracy.json", {"unit": unit, "accuracy": compared.accuracy})
    return compared


def _shown(model: MaskedLM | str | Path) -> str:
    return "given" if isinstance(model, MaskedLM) else str(model)
