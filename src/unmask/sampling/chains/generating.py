"""Texts by a decoder. They are independent of each other, and drawn as a run of chains: each text
is a chain, and the run has one sweep.

With a folder, the same call goes on where an earlier one stopped. Beyond what every run leaves,
the folder of `unmask generate` has parts and checkpoints, as that of `sample`, and

    texts.parquet    all texts, when the run is done
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from unmask.common.errors import InputError, argument_name
from unmask.common.files import user_path, write_table
from unmask.models.masked_lm import MaskedLM
from unmask.runs.folder import on_a_thread
from unmask.runs.progress import Progress
from unmask.sampling.chains.drawing import SECONDS_BETWEEN_CHECKPOINTS, STREAM, WholeRun
from unmask.sampling.chains.groups import blanks_of_texts, group_runs
from unmask.sampling.chains.sample_folder import GenerateFolder, stored_sizes
from unmask.sampling.chains.samples import SweepRows, sample_columns, spelled
from unmask.sampling.chains.sharing import SharedChains
from unmask.sampling.chains.watching import Watcher
from unmask.sampling.settings import GenerateSettings


class Draw(NamedTuple):
    """A text that a decoder drew.

    text       as it is spelled
    log_prob   its log-probability under the law of the decoder at its temperature, in nats; None
               where the decoder has no law
    passes     forward passes that it took
    length     blanks that were filled
    ids        token ids, special tokens included
    """

    text: str
    log_prob: float | None
    passes: int
    length: int
    ids: list[int]


def draw_texts(
    settings: GenerateSettings,
    model: MaskedLM,
    out: str | os.PathLike[str] | None = None,
    *,
    name: str = "in memory",
    at_once: int | None = None,
    progress: Progress | None = None,
    watcher: Watcher | None = None,
    shared: SharedChains | None = None,
) -> list[Draw]:
    """The texts, in the order of their numbers; with a folder `out`, they are kept there.

    name      of the model, for the record
    at_once   at most this many texts are decoded together, by default as many as memory holds;
              a call that goes on decodes as many as the call before it
    watcher   sees each step of the decoder, in this process
    shared    the workers that decode, instead of this process
    """
    sizes_or_most: Sequence[int] | int | None = at_once
    if out is not None:
        # A run that goes on keeps the sizes of its groups, whatever `at_once` is: its checkpoints
        # are of these groups. A new one has none stored.
        sizes_or_most = stored_sizes(user_path(out, "out"), GenerateFolder) or at_once
    settings_of_run = settings.run
    runs = group_runs(
        settings_of_run,
        model,
        sizes_or_most,
        workers=None if shared is None else shared.workers,
    )

    def report(done: int, total: int, what: str = "") -> None:
        """Report texts. The run, which is made below, calls this while it advances, and counts
        sweeps: they are not used.
        """
        if progress is not None:
            progress(_texts_done(whole_run), settings.n_texts, "texts")

    whole_run = WholeRun(
        settings_of_run, runs, SECONDS_BETWEEN_CHECKPOINTS, report, watcher=watcher
    )
    if out is None:
        numbered = []
        for keeper in whole_run.advance(shared):  # one of each group
            for rows in keeper.samples:
                numbered += draws_of(rows, model)
        return _in_order(numbered)
    about = {
        "model": name,
        "dtype": str(model.dtype).removeprefix("torch."),
        "device": model.device.type if shared is None else shared.workers.device,
        "stream": STREAM,
        GenerateFolder.SIZES: whole_run.sizes,
    }
    with GenerateFolder(out, settings, model.fingerprint, about) as folder:
        with on_a_thread() as call:  # parts are written while the next texts are decoded
            write = partial(call, folder.keep, model)  # the thread calls folder.keep(model, ...)
            whole_run.advance(shared, folder, write)
        rows = folder.rows(sample_columns()).to_pylist()
        draws = _in_order([(row["chain"], _draw_of_row(row)) for row in rows])
        if len(draws) != settings.n_texts:
            raise InputError(
                f"{settings.n_texts - len(draws):,} of the {settings.n_texts:,} texts are gone from"
                f" {str(folder.path)!r}: delete its checkpoints and give the command of the run"
                " again; they are drawn again, and are the same"
            )
        # The columns of a Draw, with the types that they have in the parts; a table without rows
        # can select them by name.
        columns = sample_columns().empty_table().select(list(Draw._fields)).schema
        rows_of_draws = [draw._asdict() for draw in draws]
        write_table(folder.path / "texts.parquet", rows_of_draws, columns)
    return draws


def _texts_done(run: WholeRun) -> int:
    """How many texts are drawn: the one sweep of a group draws all of its texts."""
    groups = zip(run.sizes, run.sweeps_done, strict=True)
    return sum(size for size, sweeps in groups if sweeps > 0)


def refuse_seed_without_effect(settings: GenerateSettings, model: MaskedLM) -> None:
    """Raise if the seed is not the default, and decides nothing in any of the texts."""
    if settings.seed == GenerateSettings.seed:
        return
    decoder = settings.decoder
    # A decoder that is random in one blank is random in every text: no template has to be read.
    if decoder.is_random(sites=1):
        return
    if any(decoder.is_random(blanks) for blanks in blanks_of_texts(settings.run, model)):
        return
    raise InputError(
        f"does nothing: with {argument_name('temperature', 0)} {decoder.name} draws no token, and"
        " no order of these blanks",
        argument="seed",
        use="leave it out",
    )


def draws_of(rows: SweepRows, model: MaskedLM) -> list[tuple[int, Draw]]:
    """The texts of a group, each with its number in the whole run."""
    on_host = rows.on_host()
    log_probs: Sequence[float | None] = [None] * len(rows.chains)
    if on_host.log_probs is not None:
        log_probs = on_host.log_probs.tolist()
    texts = spelled(on_host.ids.numpy(), model).tolist()
    values = zip(
        rows.chains, texts, log_probs, on_host.passes.tolist(), on_host.ids.tolist(), strict=True
    )
    return [
        (
            number,
            Draw(text=text, log_prob=log_prob, passes=passes, length=rows.length, ids=ids),
        )
        for number, text, log_prob, passes, ids in values
    ]


def _draw_of_row(row: dict[str, object]) -> Draw:
    """A text as the parts of a folder have it."""
    values = {column: row[column] for column in Draw._fields}
    return Draw(**values)  # type: ignore[arg-type]


def _in_order(numbered: list[tuple[int, Draw]]) -> list[Draw]:
    """The texts in the order of their numbers. Groups come in another order: each holds the texts
    of one length, and texts that follow each other may differ in length.
    """
    return [draw for _, draw in sorted(numbered, key=lambda pair: pair[0])]
