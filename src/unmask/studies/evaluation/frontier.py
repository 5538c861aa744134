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
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from unmask.common.errors import InputError, argument_name
from unmask.common.files import write_table
from unmask.common.methods.method import method
from unmask.common.methods.own_code import is_ours
from unmask.common.methods.stored import stored_form
from unmask.models.first_look import look_at_first
from unmask.models.load import Model, as_model, model_name
from unmask.models.masked_lm import MaskedLM
from unmask.models.text.text_tokenizer import refuse_too_long
from unmask.runs.fingerprint import content_hash
from unmask.runs.folder import RunFolder
from unmask.runs.progress import Progress
from unmask.sampling.decoders.decoder import Decoder, decode, lowest
from unmask.sampling.decoders.least_dependent import Profiled
from unmask.sampling.decoders.lowest_entropy import LowestEntropy
from unmask.sampling.decoders.random_sets import RandomSets
from unmask.sampling.decoders.revealing import Observed, Revealing, RevealingInSteps, law
from unmask.sampling.decoders.verified import Verified, VerifiedState
from unmask.sampling.engine.passes import Passes
from unmask.sampling.engine.randomness import streams_of
from unmask.sampling.methods import decoder_class, refuse_no_law, with_law
from unmask.sampling.on_target import DecoderOnTarget
from unmask.sampling.target import Target, blank_template, target_of
from unmask.studies.evaluation.frontier_summary import COUNTED
from unmask.studies.evaluation.sources import read_texts
from unmask.tables.conditionals import logit_rows
from unmask.tables.profile import DependenceProfile

if TYPE_CHECKING:
    import pyarrow

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
USUAL_NUMBERS = (2, 4, 8, 16)
"""Numbers of passes, and of sets, that are measured where the user names none."""
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
    """A decoder at a number of parts.

    decoder   its name
    parts     its passes, or sets; None: a reference, with one token per pass
    method    the decoder itself; None for a reference
    """

    decoder: str
    parts: int | None
    method: Decoder | None = None

    def build(self, target: Target, passes: Passes) -> DecoderOnTarget:
        """The decoder for texts of the target's length."""
        if self.method is None:
            reference = SEQUENTIAL[self.decoder]
            return reference(passes=target.sites).on(target, passes)
        return self.method.on(target, passes)


def points_of(
    decoders: Sequence[Decoder] | None,
    passes: Sequence[int] | None,
    sets: Sequence[int] | None,
    length: int,
) -> list[Point]:
    """The points of some decoders, or of all that have a law: each at every number of its passes,
    or sets. All are below the length of the texts.

    passes, sets   as the user gave them; None: those of USUAL_NUMBERS that are below the length, or
                   the decoder's own number
    """
    if decoders is None:
        decoders = [decoder_class(name)() for name in with_law()]
    by_name: dict[str, Decoder] = {}
    for decoder in decoders:
        _refuse_lawless(decoder)
        if by_name.setdefault(decoder.name, decoder) != decoder:
            raise InputError(
                f"has {decoder.name} twice, with different options",
                argument="decoders",
                use="give it once",
            )
    given = {"passes": passes, "sets": sets}
    used = {decoder.parts for decoder in by_name.values()}
    for option, numbers in given.items():
        if numbers is not None and option not in used:
            raise InputError(
                f"is not used by {', '.join(by_name)}", argument=option, use="leave it out"
            )
        _refuse_too_many(option, numbers or (), length)
    usual: Sequence[int] = [number for number in USUAL_NUMBERS if number < length]
    if passes is not None:
        usual = passes
    points = []
    for name, decoder in by_name.items():
        option = decoder.parts
        numbers = _numbers_of(decoder, given[option], usual)
        _refuse_too_many(option, numbers, length)
        for number in sorted(set(numbers)):
            changes: dict[str, Any] = {option: number}
            points.append(Point(name, number, replace(decoder, **changes)))
    if not points:
        option = next(iter(by_name.values())).parts
        raise InputError(
            f"is 2, 4, 8 and 16 unless it is given, and none is below the length, {length}",
            argument=option,
            use="give smaller numbers",
        )
    return points


def _refuse_too_many(option: str, numbers: Sequence[int], length: int) -> None:
    """Refuse a number of passes, or sets, that leaves less than one token for each."""
    for number in numbers:
        if number >= length:
            raise InputError(
                f"{number} is not below the length, {length}",
                argument=option,
                use="give smaller numbers, or longer texts",
            )


def _refuse_lawless(decoder: Decoder) -> None:
    """Refuse a decoder whose texts have no law, or that has no number of passes or sets."""
    refuse_no_law(f"{argument_name('decoders')} {decoder.name}", decoder.name)
    if not isinstance(decoder, Revealing) or not decoder.exact:  # at temperature 0 it has none
        raise InputError(
            f"{decoder.name} has no law that can be computed",
            argument="decoders",
            use=f"use one of {', '.join(with_law())}, or a class derived from one of theirs",
        )
    if decoder.parts not in ("passes", "sets"):
        raise InputError(
            f"{decoder.name} takes no number of passes",
            argument="decoders",
            use="use one that does",
        )


def _numbers_of(
    decoder: Decoder, given: Sequence[int] | None, usual: Sequence[int]
) -> Sequence[int]:
    """The numbers of passes, or sets, at which a decoder is measured: those that the user gave, or
    the one that the user's object has.
    """
    option = decoder.parts
    defaults = {one.name: one.default for one in fields(decoder)}
    has_own = decoder.number != defaults[option]
    if not has_own:
        return usual if given is None else given
    if given is not None:
        raise InputError(
            f"was given, and {argument_name('decoders')} {decoder.name} has its own",
            argument=option,
            use="give one of the two",
        )
    assert decoder.number is not None  # which is the default wherever it is possible
    return [decoder.number]


@dataclass(frozen=True)
class TextsToMeasure:
    """Texts of one length, and the points of a frontier at which they are measured.

    ids        token ids of the texts, with the model's start and end
    points     those of the user's decoders, and those of one token per pass
    seed       of random orders
    settings   those that a resumed run must share
    skipped    how many texts were left out, by reason
    """

    model: MaskedLM
    ids: Int[Tensor, "n T"]
    points: Sequence[Point]
    seed: int
    settings: dict[str, Any]
    skipped: Counter[str]

    @property
    def decoders(self) -> dict[str, Decoder]:
        """The decoders of the points, by name; references have none."""
        return {point.decoder: point.method for point in self.points if point.method is not None}


def texts_to_measure(
    data: str | os.PathLike[str] | Sequence[str],
    model: Model,
    points: Sequence[Point],
    *,
    length: int,
    first: bool,
    limit: int,
    seed: int,
) -> TextsToMeasure:
    """Load the model, and read the texts.

    length   tokens of a text
    first    whether longer texts are cut to their first tokens
    limit    the most texts that are measured
    """
    lm = as_model(model)
    uses_profile = any(isinstance(point.method, Profiled) for point in points)
    profile = DependenceProfile.of(lm) if uses_profile else None
    texts = [text.text for text in read_texts(data)]
    ids, skipped = texts_of_length(lm, texts, length=length, first=first, limit=limit)
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
        "limit": limit,
        "decoders": _as_settings(points),
        "passes": _numbers(points, "passes"),
        "sets": _numbers(points, "sets"),
        "profile": None if profile is None else profile.to_dict(),
        "seed": seed,
    }
    references = [Point(name, None) for name in SEQUENTIAL]
    return TextsToMeasure(
        model=lm,
        ids=ids,
        points=[*points, *references],
        seed=seed,
        settings=settings,
        skipped=skipped,
    )


def measured(texts: TextsToMeasure, run: RunFolder | None, progress: Progress | None) -> list[Row]:
    """The rows of all texts and points; those that the folder of the run holds are not measured
    again.
    """
    if run is None:
        batches = _measured(texts, set(), progress)
        return [row for batch in batches for row in batch]
    columns = _columns()
    stored = run.rows(columns).to_pylist()
    done = {(row["decoder"], row["asked"], row["text"]) for row in stored}
    for batch in _measured(texts, done, progress):
        run.store(batch, columns)
    rows: list[Row] = run.rows(columns).to_pylist()
    return rows


def _columns() -> pyarrow.Schema:
    from unmask.common.lazy import pyarrow

    return pyarrow.schema([*COLUMNS.items()])


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    """Write rows as one Parquet file."""
    write_table(path, rows, _columns())


def _numbers(points: Sequence[Point], option: str) -> list[int]:
    """The numbers of the points whose decoders call them `option`."""
    numbers = {
        point.parts for point in points if point.method is not None and point.method.parts == option
    }
    return sorted(number for number in numbers if number is not None)


def _as_settings(points: Sequence[Point]) -> list[Any]:
    """The decoders of the points: names, and of those with options of their own all of these,
    without the number of passes or sets.
    """
    stored: dict[str, Any] = {}
    for point in points:
        decoder = point.method
        assert decoder is not None  # references are none of the settings
        changes: dict[str, Any] = {decoder.parts: point.parts}
        if is_ours(type(decoder)) and decoder == replace(type(decoder)(), **changes):
            stored[point.decoder] = point.decoder
        else:
            form = stored_form(decoder)
            del form[decoder.parts]
            stored[point.decoder] = form
    return list(stored.values())


def texts_of_length(
    model: MaskedLM, texts: Sequence[str], length: int, first: bool, limit: int
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
        if len(rows) == limit:
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
    texts: TextsToMeasure,
    done: set[tuple[str, int | None, int]],
    progress: Progress | None,
) -> Iterator[list[Row]]:
    """Rows of the points and texts that are not done, a batch of texts at a time.

    done   (decoder, passes, number of the text) of each row that an earlier run stored
    """
    model = texts.model
    ids = texts.ids
    before, after = model.around()
    length = ids.shape[1] - len(before) - len(after)
    target = target_of(model, blank_template(model, length))
    network = Passes(model, form="logits")
    texts_at_once = logit_rows(model, length)
    passes_in_all = len(ids) * sum(point.parts or length for point in texts.points)
    passes_done = 0
    for point in texts.points:
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
            yield _rows_of(point, decoder, texts=batch, ids=ids[batch], seed=texts.seed)
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
    laws = law(decoder, ids, streams_of(seed, texts, ids.device).of(0, 0))
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
    streams = streams_of(seed, counted, decoder.target.device).of(0, 1)
    state, rows = decode(decoder, len(counted), streams)
    assert isinstance(state, VerifiedState)
    return [*state.rounds.tolist(), *not_counted], [*rows.tolist(), *not_counted]
