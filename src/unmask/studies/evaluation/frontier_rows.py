"""Passes against nats: every decoder with a law as a language model on held-out texts.

    nats of a text by a decoder at n passes = -log law(text)        (`sampling.decoders.revealing`)

Texts have L tokens, all masked at the start, and q runs over the regular tokens at temperature 1,
so each law sums to 1 over the texts of L tokens: the numbers are computed, not estimated, and
comparable. References fill one token per pass: the lowest entropy first ("surest first"), in a
random order (drawn for each text from the seed), from left to right.

Rounds are calls of the network that wait for each other, rows the texts that they see. A pass is
one round of one row. Verified drafts need fewer rounds than their law has passes, and more rows:
both are counted while texts are drawn.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from unmask.common.errors import InputError, argument_name
from unmask.common.methods.method import method
from unmask.models.first_look import look_at_first
from unmask.models.load import Model, as_model, model_name
from unmask.models.masked_lm import MaskedLM
from unmask.models.text.text_tokenizer import refuse_too_long
from unmask.runs.fingerprint import content_hash
from unmask.runs.folder import RunFolder
from unmask.runs.progress import Progress
from unmask.sampling.decoders.decoder import decode, lowest
from unmask.sampling.decoders.lowest_entropy import LowestEntropy
from unmask.sampling.decoders.random_sets import RandomSets
from unmask.sampling.decoders.revealing import Observed, RevealingInSteps, law
from unmask.sampling.decoders.verified import Verified, VerifiedState
from unmask.sampling.engine.passes import Passes
from unmask.sampling.engine.randomness import ChainStreams
from unmask.sampling.methods import decoder_class
from unmask.sampling.on_target import DecoderOnTarget
from unmask.sampling.target import Target, blank_template
from unmask.studies.evaluation.frontier import COUNTED, Frontier, write_frontier
from unmask.studies.evaluation.sources import read_texts
from unmask.tables.conditionals import logit_rows
from unmask.tables.profile import Profile

KIND = "frontier"
DRAWN = 64
"""Texts that are drawn to count the rounds of a decoder that verifies."""
COLUMNS = {
    "decoder": "string",
    "asked": "int64",
    "text": "int64",
    **dict.fromkeys(COUNTED, "int64"),
    "nats": "float64",
}
Row = dict[str, Any]
"""The numbers of one text by one decoder at one number of passes, by COLUMNS."""


@method
class LeftToRight(RevealingInSteps):
    """One token per pass, from left to right: the order of causal models."""

    def choose(self, on: DecoderOnTarget, observed: Observed) -> Bool[Tensor, "n F"]:
        blank = observed.blank
        place = torch.arange(blank.shape[1], dtype=torch.float64, device=blank.device)
        return lowest(place.expand(blank.shape), blank, 1)


SEQUENTIAL: Mapping[str, type[RevealingInSteps]] = {
    "surest first": LowestEntropy,
    "random order": RandomSets,
    "left to right": LeftToRight,
}
"""References: one token per pass."""


@dataclass(frozen=True)
class Point:
    """A decoder at a number of parts, its passes or sets; `parts` None: one token per pass."""

    decoder: str
    parts: int | None

    def build(self, target: Target, passes: Passes) -> DecoderOnTarget:
        """The decoder for texts of the target's length."""
        if self.parts is None:
            reference = SEQUENTIAL[self.decoder]
            return reference(passes=target.sites).on(target, passes)
        return decoder_class(self.decoder).in_parts(self.parts).on(target, passes)


def measured_frontier(
    data: str | os.PathLike[str] | Sequence[str],
    model: Model,
    points: Sequence[Point],
    *,
    length: int,
    first: bool,
    most_texts: int,
    seed: int,
    folder: Path | None = None,
    progress: Progress | None = None,
) -> Frontier:
    """The frontier of `points`, and of one token per pass.

    length       tokens of a text
    first        whether longer texts are cut to their first tokens
    most_texts   the most texts that are measured
    folder       where rows are kept as they come, and a stopped run continues
    """
    import pyarrow

    lm = as_model(model)
    uses_profile = any(hasattr(decoder_class(point.decoder), "profile") for point in points)
    profile = Profile.of(lm) if uses_profile else None
    texts = [text.text for text in read_texts(data)]
    ids, skipped = texts_of_length(lm, texts, length=length, first=first, most_texts=most_texts)
    look_at_first(lm, ids.tolist())
    is_named = isinstance(data, str | os.PathLike)
    settings = {
        "model": model_name(model),
        "weights": lm.fingerprint,
        "dtype": str(lm.dtype).removeprefix("torch."),
        "device": lm.device.type,
        "data": str(data) if is_named else f"{len(texts)} given texts",
        "data_sha256": content_hash("\n".join(texts)),
        "length": length,
        "first": first,
        "sentences": most_texts,
        "decoders": list(dict.fromkeys(point.decoder for point in points)),
        "passes": _numbers(points, "passes"),
        "sets": _numbers(points, "sets"),
        "profile": None if profile is None else profile.to_dict(),
        "seed": seed,
    }
    every_point = [*points, *(Point(name, None) for name in SEQUENTIAL)]
    measure = partial(_measured, lm, ids, every_point, seed, progress)
    columns = pyarrow.schema(list(COLUMNS.items()))
    if folder is None:
        rows = list(chain.from_iterable(measure(done=set())))
        table = pyarrow.Table.from_pylist(rows, columns)
        return Frontier(settings, table.to_pandas(), skipped)
    with RunFolder(folder, KIND, settings) as run:
        stored = run.rows(columns).to_pylist()
        done = {(row["decoder"], row["asked"], row["text"]) for row in stored}
        for batch in measure(done=done):
            run.store(batch, columns)
        frontier = Frontier(settings, run.rows(columns).to_pandas(), skipped)
        write_frontier(frontier, run.path)
    return frontier


def _numbers(points: Sequence[Point], option: str) -> list[int]:
    """The numbers of the points whose decoders call them `option`."""
    numbers = {point.parts for point in points if decoder_class(point.decoder).parts == option}
    return sorted(number for number in numbers if number is not None)


def texts_of_length(
    model: MaskedLM, texts: Sequence[str], length: int, first: bool, most_texts: int
) -> tuple[Int[Tensor, "n T"], Counter[str]]:
    """Token ids of the first texts of exactly `length` tokens, with the model's start and end.

    With `first`, the first tokens of longer texts count, too. Also returns why other texts were
    left out.
    """
    before, after = model.around()
    refuse_too_long(length + len(before) + len(after), model.max_length)
    special = {*model.special_ids, model.mask_id}
    rows: list[list[int]] = []
    skipped: Counter[str] = Counter()
    for text in texts:
        if len(rows) == most_texts:
            break
        try:
            ids = model.words.encode(text)
        except InputError:
            skipped["cannot be read"] += 1
            continue
        inside = ids[len(before) : len(ids) - len(after)]
        kept = inside[:length]
        if len(inside) < length or (len(inside) > length and not first):
            skipped["of another length"] += 1
        elif special & set(kept):
            skipped["with special or unknown tokens"] += 1
        else:
            rows.append([*before, *kept, *after])
    if not rows:
        use = f"give other texts or another {argument_name('length')}"
        if not first:
            use += f", or {argument_name('first', True)} for the first tokens of longer ones"
        raise InputError(f"has no text of {length} tokens", argument="data", use=use)
    return torch.tensor(rows, device=model.device), skipped


def _measured(
    model: MaskedLM,
    ids: Int[Tensor, "n T"],
    points: Sequence[Point],
    seed: int,
    progress: Progress | None,
    done: set[tuple[str, int | None, int]],
) -> Iterator[list[Row]]:
    """Rows of the points and texts that are not done, a batch of texts at a time.

    done   (decoder, passes, number of the text) of each row that an earlier run stored
    """
    before, after = model.around()
    length = ids.shape[1] - len(before) - len(after)
    target = Target(model, blank_template(model, length))
    network = Passes(model, form="logits")
    texts_at_once = logit_rows(model, length)
    passes_in_all = len(ids) * sum(point.parts or length for point in points)
    passes_done = 0
    for point in points:
        decoder = point.build(target, network)
        passes_per_text = point.parts or length
        pending = [
            text for text in range(len(ids)) if (point.decoder, point.parts, text) not in done
        ]
        passes_done += (len(ids) - len(pending)) * passes_per_text
        if progress:
            progress(passes_done, passes_in_all, "passes")
        for start in range(0, len(pending), texts_at_once):
            batch = pending[start : start + texts_at_once]
            yield _rows_of(point, decoder, texts=batch, ids=ids[batch], seed=seed)
            passes_done += len(batch) * passes_per_text
            if progress:
                progress(passes_done, passes_in_all, "passes")


def _rows_of(
    point: Point,
    decoder: DecoderOnTarget,
    texts: Sequence[int],
    ids: Int[Tensor, "n T"],
    seed: int,
) -> list[Row]:
    """The rows of some texts, given by their numbers and their token ids."""
    laws = law(decoder, ids, ChainStreams(seed, texts, ids.device).of(0, 0))
    passes = laws.passes.tolist()
    rounds = network_rows = passes
    if isinstance(decoder.method, Verified):
        rounds, network_rows = _counted(decoder, texts, seed)
    nats = (-laws.log_q.sum(1)).tolist()
    return [
        {
            "decoder": point.decoder,
            "asked": point.parts,
            "text": text,
            "passes": passes[i],
            "rounds": rounds[i],
            "rows": network_rows[i],
            "nats": nats[i],
        }
        for i, text in enumerate(texts)
    ]


def _counted(
    decoder: DecoderOnTarget, texts: Sequence[int], seed: int
) -> tuple[list[int | None], list[int | None]]:
    """Rounds and rows of texts that are drawn in the place of the first of `texts`, None for
    the others.
    """
    counted = [text for text in texts if text < DRAWN]
    not_counted: list[int | None] = [None] * (len(texts) - len(counted))
    if not counted:
        return not_counted, not_counted
    streams = ChainStreams(seed, counted, decoder.target.device).of(0, 1)
    state, rows = decode(decoder, len(counted), streams)
    assert isinstance(state, VerifiedState)
    return [*state.rounds.tolist(), *not_counted], [*rows.tolist(), *not_counted]
