"""The verb `generate`: texts by a decoder, each with its probability."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from unmask.common.border.calls import checked
from unmask.common.border.marks import Only, TakesMethod
from unmask.common.errors import InputError
from unmask.common.formats import count, how_many, in_form, number
from unmask.common.result_tables import Column, Table
from unmask.common.results import Result
from unmask.models.load import Model, model_name
from unmask.models.sharing import shared_model
from unmask.runs.progress import Progress
from unmask.sampling.chains.watching import Watcher
from unmask.sampling.decoders.decoder import Decoder
from unmask.sampling.settings import (
    Chains,
    GenerateSettings,
    Lengths,
    lengths_of,
    tokens_of_alphabet,
)
from unmask.verbs import Allow, Alphabet, Engine, Judge, Out, Seed

if TYPE_CHECKING:
    import pandas

    from unmask.sampling.chains.generating import Draw


@dataclass(frozen=True, repr=False, eq=False)
class Generation(Result):
    """The result of `unmask.generate`.

    settings   what decided the texts: decoder, temperature, seed, ...
    law        the law of the texts, in a sentence
    rows       a dict for each text: text, passes, length and log_prob. The last one is in nats, by
               the decoder's law at its temperature; None if that law has no closed form
    ids        the token ids of each text, special tokens included
    judge      with `judge`: its name ("name"), and the mean of its scores of the texts ("texts"),
               in nats per token, lower is better
    folder     where the run is kept, if it is

    >>> generation = unmask.generate("A [MASK] sat on the [MASK].", n_texts=3, seed=0)
    >>> len(generation.texts), generation.passes
    (3, 6)
    """

    KEYS: ClassVar[tuple[str, ...]] = ("settings", "law", "texts=rows", "judge")
    OPTIONAL: ClassVar[tuple[str, ...]] = ("judge",)
    ROWS: ClassVar[str] = "texts"

    settings: GenerateSettings
    law: str
    rows: list[dict[str, Any]]
    ids: list[list[int]]
    judge: dict[str, Any] | None = None
    folder: Path | None = None

    @property
    def texts(self) -> list[str]:
        """The texts."""
        return [row["text"] for row in self.rows]

    @property
    def passes(self) -> int:
        """Forward passes of all texts."""
        return sum(row["passes"] for row in self.rows)

    def to_frame(self) -> pandas.DataFrame:
        """The texts, with log_prob (NaN where there is none), passes and length."""
        from unmask.common.lazy import pandas

        frame = pandas.DataFrame(self.rows)
        return frame.astype({"log_prob": "float64"})

    @checked
    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write `rows` as JSON lines: each text with its log_prob, passes and length."""
        import json

        from unmask.common.files import output_file, write_atomically

        file = output_file("path", path)
        lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in self.rows]
        write_atomically(file, "".join(lines))
        return file

    def about(self) -> list[str]:
        """The law of the texts."""
        return [self.law]

    def tables(self) -> list[Table]:
        """The texts with their log-probabilities and passes."""
        columns = [
            Column("nats", in_form(".2f")),
            Column("passes", count),
            Column("text", text=True),
        ]
        rows = [[row["log_prob"], row["passes"], row["text"]] for row in self.rows]
        return [Table(columns, rows)]

    def verdict(self) -> list[str]:
        """What the judge says of the texts, if there is one."""
        if self.judge is None:
            return []
        score = number(self.judge["texts"])
        return [f"judge {self.judge['name']}: {score} nats per token (lower is better)"]

    def notices(self) -> list[str]:
        """Where the texts are, if they are kept."""
        if self.folder is None:
            return []
        are = "is" if len(self.rows) == 1 else "are"
        return [f"{how_many(len(self.rows), 'text')} {are} in {self.folder / 'texts.parquet'}"]

    def __repr__(self) -> str:
        texts = how_many(len(self.rows), "text")
        passes = how_many(self.passes, "pass", "passes")
        return f"Generation({self.settings.decoder.label}: {texts}, {passes})"


@checked
def generate(
    template: str | None = None,
    model: Model = None,
    *,
    decoder: Annotated[
        Decoder | str, TakesMethod("unmask.sampling.decoders.decoder:DECODERS")
    ] = "ancestral",
    n_texts: Chains = 16,
    length: Annotated[Lengths | Sequence[Lengths] | None, Only(without=("template",))] = None,
    allow: Allow = None,
    alphabet: Alphabet = None,
    seed: Seed = 0,
    judge: Judge = None,
    out: Out = None,
    engine: Engine = "local",
    progress: Progress | None = None,
    watcher: Watcher | None = None,
) -> Generation:
    """Draw texts by a decoder, independently of each other, each with its log-probability.

    Parameters:
        template: Text with [MASK] where tokens are drawn; the rest is held.
        decoder: What fills the blanks: {names}; or a class of your own, my.py:Mine. In Python
            also an object with its options, such as unmask.Verified(sets=4).
        n_texts: How many texts. Those of a smaller number are the first of a larger one.
        length: Tokens per text in the place of a template, or several lengths such as 8,12,16
            [default: 12].
        watcher: An object whose methods `begun`, `stepped` and `swept` are called as the decoder
            goes on; see `unmask.sampling.chains.watching`.

    Returns:
        A `Generation`: the texts with log-probabilities and passes, and their law in a sentence.

    >>> generation = unmask.generate("A [MASK] sat on the [MASK].", n_texts=2, seed=0)
    >>> [row["passes"] for row in generation.rows]
    [2, 2]
    """
    from unmask.runs.folder import output_folder
    from unmask.sampling.chains.generating import draw_texts, refuse_seed_without_effect
    from unmask.sampling.chains.sample_folder import GenerateFolder
    from unmask.sampling.chains.sharing import SharedChains

    tokens = () if alphabet is None else tokens_of_alphabet(alphabet)
    settings = GenerateSettings(
        decoder=decoder,  # type: ignore[arg-type]  # `checked` turned a name into an object
        template=template,
        length=lengths_of(length),
        n_texts=n_texts,
        seed=seed,
        allow=allow,
        alphabet=tokens,
    )
    # Refused first, while nothing is drawn: a folder where the texts cannot be kept, and a judge
    # that cannot be read.
    folder = None if out is None else output_folder(out, GenerateFolder.KIND)
    judging = None
    if judge is not None:
        from unmask.sampling.chains.judge import CausalJudge

        judging = CausalJudge(judge)
    lm, workers, load = shared_model(model, engine, settings.n_texts)
    refuse_seed_without_effect(settings, lm)
    if watcher is not None and workers is not None:
        raise InputError(
            "sees the texts of this process, and workers draw them",
            argument="watcher",
            use="leave it out, or run on one device of this machine",
        )
    shared = None
    if workers is not None and load is not None:
        shared = SharedChains(settings.run, workers, load)
    draws = draw_texts(
        settings,
        lm,
        out,
        name=model_name(model),
        progress=progress,
        watcher=watcher,
        shared=shared,
    )
    texts = [draw.text for draw in draws]
    judged = None
    if judging is not None:
        from unmask.sampling.chains.judge import mean_score

        judged = {"name": judging.name, "texts": mean_score(judging, texts)}
    return generation_of(settings, draws, judged, folder)


def generation_of(
    settings: GenerateSettings,
    draws: Sequence[Draw],
    judge: dict[str, Any] | None = None,
    folder: Path | None = None,
) -> Generation:
    """The result for texts that were drawn.

    judge    what a causal language model says of them
    folder   where they are kept, if they are
    """
    rows = []
    for draw in draws:
        row = draw._asdict()
        del row["ids"]  # they have a field of their own
        rows.append(row)
    return Generation(
        settings=settings,
        law=_law_of(settings.decoder),
        rows=rows,
        ids=[draw.ids for draw in draws],
        judge=judge,
        folder=folder,
    )


def _law_of(decoder: Decoder) -> str:
    """The law of a decoder's texts, in a sentence. One that is exact is the law of some
    temperature: it is named where that is not 1.
    """
    temperature = decoder.token_temperature
    if temperature == 0:
        return (
            "At temperature 0 each token is the likeliest one: nothing is drawn but the order of"
            " the blanks, if that is random, so there is no log-probability."
        )
    sentence = decoder.verdict.format_map(vars(decoder))  # which names options of the decoder
    if temperature != 1 and decoder.exact:
        return f"{sentence} The law is that of temperature {temperature:g}."
    return sentence
