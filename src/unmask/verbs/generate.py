"""The verb `generate`: texts by a decoder, each with its probability."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from unmask.common.border.calls import checked
from unmask.common.border.marks import Only, TakesMethod, Written
from unmask.common.results import Result
from unmask.models.load import Model, model_name
from unmask.models.sharing import shared_model
from unmask.runs.progress import Progress
from unmask.sampling.decoders.decoder import Decoder
from unmask.sampling.settings import Chains, GenerateSettings, Lengths, Start
from unmask.verbs import Alphabet, Engine, Out, Seed

if TYPE_CHECKING:
    import pandas

TEXTS_SHOWN = 10  # In a notebook


@dataclass(frozen=True, repr=False, eq=False)
class Generation(Result):
    """The result of `unmask.generate`.

    settings   what decided the texts: decoder, temperature, seed, ...
    law        the law of the texts, in a sentence
    rows       one dict per text: text, log_prob (nats, of the decoder's law at its temperature;
               None where it has no law), passes, length
    ids        the token ids of each text, special tokens included
    judge      with `judge`, its name and the mean of its scores: nats per token, lower is better
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

    @property
    def headline(self) -> str:
        """The decoder, and how many texts and passes there are."""
        count = len(self.rows)
        texts = "1 text" if count == 1 else f"{count:,} texts"
        return f"{self.settings.decoder.label}: {texts}, {self.passes:,} passes"

    def to_dict(self) -> dict[str, Any]:
        """The object that `unmask generate --json` prints."""
        described = {
            "settings": self.settings.to_dict(),
            "law": self.law,
            "texts": [dict(row) for row in self.rows],
        }
        if self.judge is not None:
            described["judge"] = dict(self.judge)
        return described

    def to_frame(self) -> pandas.DataFrame:
        """The texts, with log_prob (NaN where there is none), passes and length."""
        import pandas

        frame = pandas.DataFrame(self.rows)
        return frame.astype({"log_prob": "float64"})

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the texts as JSON lines, each with log_prob, passes and length."""
        import json

        from unmask.common.files import output_file, write_atomically

        file = output_file("path", path)
        lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in self.rows]
        write_atomically(file, "".join(lines))
        return file

    def __repr__(self) -> str:
        return f"Generation({self.headline})"

    def _repr_html_(self) -> str:
        table = self.to_frame().head(TEXTS_SHOWN).to_html(index=False)
        return f"<p>{escape(self.headline)}</p><p>{escape(self.law)}</p>{table}"


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
    allow: Annotated[Mapping[int, Sequence[str]] | None, Written("POSITION=TOKENS")] = None,
    alphabet: Alphabet = None,
    seed: Seed = 0,
    judge: str | None = None,
    out: Out = None,
    engine: Engine = "local",
    progress: Progress | None = None,
) -> Generation:
    """Draw texts by a decoder, independently of each other, each with its log-probability.

    Parameters:
        template: Text with [MASK] where tokens are drawn; the rest is held.
        decoder: What fills the blanks: {names}; or a class of your own, my.py:Mine. In Python
            also an object with its options, such as unmask.Verified(sets=4).
        n_texts: How many texts. Those of a smaller number are the first of a larger one.
        length: Tokens per text in the place of a template, or several lengths such as 8,12,16
            [default: 12].
        allow: The only tokens at a position of the template's tokens, such as 3=red,green; [CLS]
            is position 0.
        judge: A causal language model, by name or folder, that scores the texts.

    Returns:
        A `Generation`: the texts with log-probabilities and passes, and their law in a sentence.

    >>> generation = unmask.generate("A [MASK] sat on the [MASK].", n_texts=2, seed=0)
    >>> [row["passes"] for row in generation.rows]
    [2, 2]
    """
    from unmask.runs.folder import output_folder
    from unmask.sampling.chains.generating import draw_texts, law_of
    from unmask.sampling.chains.sample_folder import GenerateFolder
    from unmask.sampling.chains.sharing import SharedChains

    if length is None:
        lengths: tuple[int, ...] = (12,)
    elif isinstance(length, int):
        lengths = (length,)
    else:
        lengths = tuple(length)
    start = Start(allow=allow, alphabet=() if alphabet is None else alphabet)  # reads a file
    settings = GenerateSettings(
        decoder=decoder,  # type: ignore[arg-type]  # `checked` turned a name into an object
        template=template,
        length=lengths,
        n_texts=n_texts,
        seed=seed,
        allow=start.allow,
        alphabet=start.alphabet,
    )
    folder = None if out is None else output_folder(out, GenerateFolder.KIND)
    judging = None
    if judge is not None:
        from unmask.sampling.chains.judge import CausalJudge

        judging = CausalJudge(judge)  # first: a judge that cannot be read costs no texts
    lm, workers, load = shared_model(model, engine, settings.n_texts)
    shared = None
    if workers is not None and load is not None:
        shared = SharedChains(settings.run, workers, load)
    draws = draw_texts(settings, lm, out, name=model_name(model), progress=progress, shared=shared)
    texts = [draw.text for draw in draws]
    judged = None
    if judging is not None:
        from unmask.sampling.chains.judge import mean_score

        judged = {"name": judging.name, "texts": mean_score(judging, texts)}
    return Generation(
        settings=settings,
        law=law_of(settings.decoder),
        rows=[
            {
                "text": draw.text,
                "log_prob": draw.log_prob,
                "passes": draw.passes,
                "length": draw.length,
            }
            for draw in draws
        ],
        ids=[draw.ids for draw in draws],
        judge=judged,
        folder=folder,
    )
