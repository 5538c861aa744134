"""The verb `check`: the facts of a model as it was read, and what looks wrong.

A thing that looks wrong is a concern, in one sentence. Concerns come from three sources:

1. The warnings of loading. Those of them that are no reason for concern are notes.
2. The model itself: what it puts around a text, and its distribution with everything masked.
3. The user's texts, if any are given: tokens of theirs are masked one at a time.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import log, sqrt
from typing import TYPE_CHECKING, Annotated, Any

from unmask.common.border.calls import checked
from unmask.common.border.marks import Written
from unmask.common.errors import UnmaskWarning, argument_name
from unmask.common.result_tables import Column, Table
from unmask.common.results import Result
from unmask.models.load import Model
from unmask.runs.progress import Progress
from unmask.verbs import PathLike

if TYPE_CHECKING:
    import pandas

    from unmask.models.masked_accuracy import OnTexts
    from unmask.models.masked_lm import MaskedLM

MUCH_SPECIAL = 0.1  # mean probability of special tokens that looks wrong
MUCH_UNKNOWN = 0.02  # share of unknown tokens that looks wrong
NEARLY_UNIFORM = 0.98  # of the entropy of a uniform distribution
STANDARD_ERRORS = 2
"""The accuracy must lie above the share of the most frequent token by this many of them."""
GOOD_ACCURACY = 0.5
"""A model with a higher accuracy does not look wrong, even if one token has a higher share."""
EXAMPLES = 8  # regular tokens that are named
SIZES = {"num_hidden_layers": "layers", "hidden_size": "wide", "num_attention_heads": "heads"}
"""Sizes of a network by their names in its configuration, and in words."""


@dataclass(frozen=True, repr=False)
class Check(Result):
    """A model as it was understood, and `concerns`: what looks wrong; empty if nothing does.

    model          its name or folder
    architecture   its kind and shape
    network        the class that computes it
    n_parameters   how many it has
    dtype          the number format that it runs in
    device         where it runs
    tokenizer      the kind of its tokens
    cased          whether upper and lower case differ
    n_tokens       how many tokens it knows
    n_regular      how many of them can stand in a text
    examples       up to eight of these
    special        the special tokens
    mask           the mask token
    mask_id        its number
    around         the tokens put before a text, and those put after it
    n_outputs      logits per position
    n_unused       how many of them belong to no token
    longest        the most tokens of a text, those around it included; None if there is no limit
    notes          what was warned of at loading, and is right all the same
    on_texts       figures on the user's texts; None if none were given
    concerns       what looks wrong

    >>> facts = unmask.check()
    >>> facts.mask, facts.cased, facts.n_tokens
    ('[MASK]', True, 8192)
    """

    model: str
    architecture: str
    network: str
    n_parameters: int
    dtype: str
    device: str
    tokenizer: str
    cased: bool
    n_tokens: int
    n_regular: int
    examples: tuple[str, ...]
    special: tuple[str, ...]
    mask: str
    mask_id: int
    around: tuple[tuple[str, ...], tuple[str, ...]]
    n_outputs: int
    n_unused: int
    longest: int | None
    notes: tuple[str, ...]
    on_texts: OnTexts | None
    concerns: tuple[str, ...]

    @property
    def rows(self) -> list[dict[str, str]]:
        """What was found of each item, in words: the facts, the notes, and the figures on texts."""
        found = [*self._facts()]
        found += [("noted", note) for note in self.notes]
        if self.on_texts is not None:
            found += _figures_in_words(self.on_texts)
        return [{"item": item, "found": words} for item, words in found]

    def _facts(self) -> Iterator[tuple[str, str]]:
        """The facts of the model in words, each with its name."""
        yield "model", self.model
        yield "architecture", f"{self.architecture}; {self.n_parameters:,} parameters"
        yield "computed by", f"{self.network} in {self.dtype} on {self.device}"
        cases = "differ" if self.cased else "are one"
        yield "tokenizer", f"{self.tokenizer}; upper and lower case {cases}"
        yield "mask token", f"{self.mask} (id {self.mask_id})"
        yield "special tokens", " ".join(self.special)
        yield "regular tokens", f"{self.n_regular:,}, for example {' '.join(self.examples)}"
        unused = f"{self.n_unused:,} of them not tokens" if self.n_unused else "all tokens"
        yield "outputs", f"{self.n_outputs:,}, {unused}"
        tokens_before, tokens_after = self.around
        before = " ".join(tokens_before) or "nothing"
        after = " ".join(tokens_after) or "nothing"
        yield "around a text", f"{before} before, {after} after"
        longest = "no limit"
        if self.longest is not None:
            longest = f"{self.longest:,} tokens, those around it included"
        yield "longest text", longest

    def tables(self) -> list[Table]:
        """What was found of each item; the columns have no heads."""
        columns = [Column("", text=True), Column("", text=True)]
        return [Table(columns, [[row["item"], row["found"]] for row in self.rows])]

    def verdict(self) -> list[str]:
        """What looks wrong, or that nothing does."""
        if self.concerns:
            return [f"looks wrong: {concern}" for concern in self.concerns]
        if self.on_texts is None:
            data = argument_name("data")
            return [f"nothing looks wrong; give {data} to measure it on your texts"]
        return ["nothing looks wrong"]

    def to_frame(self) -> pandas.DataFrame:
        """One row per item of `rows`, and after them a row for each concern."""
        from unmask.common.lazy import pandas

        rows = [*self.rows]
        rows += [{"item": "looks wrong", "found": concern} for concern in self.concerns]
        return pandas.DataFrame(rows)

    def __repr__(self) -> str:
        lines = [f"{row['item']:<16}{row['found']}" for row in self.rows]
        return "\n".join([*lines, self.summary()])


@checked
def check(
    model: Model = None,
    *,
    data: Annotated[PathLike | Sequence[str] | None, Written(metavar="PATH")] = None,
    progress: Progress | None = None,
) -> Check:
    """Say what was understood of a model (tokenizer, mask, longest text) and what looks wrong.

    With data, one token at a time is masked in those texts: a model that is read wrong shows in
    the accuracy. A model that is loaded already is not read again, so what its loading warned of
    is not among the concerns.

    Parameters:
        data: Texts of the kind it was trained on: one per line, or .fasta; - is standard input.
            Or a list of texts.

    Returns:
        A `Check`: the facts of the model, and its concerns.

    >>> unmask.check().concerns
    ()
    """
    from unmask.models.checkpoint_files import TokenizerAbove
    from unmask.models.load import reload
    from unmask.models.masked_accuracy import measure, texts_of
    from unmask.models.masked_lm import MaskedLM
    from unmask.models.weight_checks import LeftOut

    texts = None
    if data is not None:  # before the model is loaded, which takes time
        texts = texts_of(data)
    with _caught_warnings() as caught:
        if isinstance(model, MaskedLM):
            lm = model
        else:  # read again, even if it was read before: its warnings came then, and not now
            lm = reload(model)
    figures = None
    if texts is not None:
        figures = measure(lm, texts, progress)
    doubts = [*concerns(lm, figures)]
    harmless: tuple[type[Warning], ...] = (LeftOut,)
    looks_right_on_texts = figures is not None and not doubts
    if looks_right_on_texts:  # then the tokenizer, found above the model's folder, is the model's
        harmless = (LeftOut, TokenizerAbove)
    notes = [str(warning) for warning in caught if isinstance(warning, harmless)]
    warned_of = [str(warning) for warning in caught if not isinstance(warning, harmless)]
    return _check_of(
        lm,
        notes=_each_once(notes),
        on_texts=figures,
        concerns=_each_once([*warned_of, *doubts]),
    )


@contextmanager
def _caught_warnings() -> Iterator[list[UnmaskWarning]]:
    """The warnings of this project that come in the block, and are not shown; those of other
    libraries are shown as always.
    """
    caught: list[UnmaskWarning] = []
    with warnings.catch_warnings():
        warnings.simplefilter("always", UnmaskWarning)
        show_as_always = warnings.showwarning

        def show(message: Warning | str, *where: Any, **more: Any) -> None:
            """Called by Python for each warning."""
            if isinstance(message, UnmaskWarning):
                caught.append(message)
            else:
                show_as_always(message, *where, **more)

        warnings.showwarning = show  # `catch_warnings` puts back the one before
        yield caught


def _each_once(sentences: Sequence[str]) -> tuple[str, ...]:
    """The sentences in their order, without repetitions."""
    return tuple(dict.fromkeys(sentences))


def _check_of(
    model: MaskedLM,
    notes: tuple[str, ...],
    on_texts: OnTexts | None,
    concerns: tuple[str, ...],
) -> Check:
    """The facts of a model, with what was found besides."""
    words = model.words
    before, after = words.around()
    examples = _evenly_spaced(model.regular_ids, EXAMPLES)
    return Check(
        model=model.name,
        architecture=_architecture(model),
        network=_network_in_words(model),
        n_parameters=sum(weight.numel() for weight in model.network.parameters()),
        dtype=str(model.dtype).removeprefix("torch."),
        device=str(model.device),
        tokenizer=words.kind,
        cased=words.cased,
        n_tokens=words.size,
        n_regular=len(model.regular_ids),
        examples=tuple(_in_words(words.token(i)) for i in examples),
        special=words.special_tokens,
        mask=words.mask_token,
        mask_id=model.mask_id,
        around=(tuple(words.tokens(before)), tuple(words.tokens(after))),
        n_outputs=model.vocab_size,
        n_unused=len(words.nameless),
        longest=model.max_length,
        notes=notes,
        on_texts=on_texts,
        concerns=concerns,
    )


def _in_words(token: str) -> str:
    """A token without spaces around it; in quotes if it has nothing else."""
    return token.strip() or repr(token)


def _evenly_spaced(ids: Sequence[int], most: int) -> Sequence[int]:
    """Up to `most` of the ids, at equal distances. Of a large vocabulary they come from all over;
    of a small one, the last ids may be left out.
    """
    step = max(1, len(ids) // most)
    first = step // 2
    spaced = ids[first::step]
    return spaced[:most]


def _architecture(model: MaskedLM) -> str:
    """The kind of a network, and the sizes that its configuration states."""
    config = model.network.config
    kind = str(getattr(config, "model_type", type(model.network).__name__))
    parts = [kind]
    for name, in_words in SIZES.items():
        size = getattr(config, name, None)
        if size is not None:
            parts.append(f"{size} {in_words}")
    return ", ".join(parts)


def _network_in_words(model: MaskedLM) -> str:
    """What computes the logits."""
    from unmask.models.encoder.bert import BertMaskedLM
    from unmask.models.function_network import FunctionNetwork

    if isinstance(model.network, BertMaskedLM):
        return "unmask's own BERT"
    if isinstance(model.network, FunctionNetwork):
        return "a function"
    return f"transformers' {type(model.network).__name__}"


def _figures_in_words(figures: OnTexts) -> list[tuple[str, str]]:
    """The figures on texts in words, each with its name."""
    texts = (
        f"{figures.n_texts:,} read, {figures.n_refused:,} refused,"
        f" {figures.n_too_long:,} too long; {figures.n_tokens:,} tokens"
    )
    accuracy = (
        f"{figures.accuracy:.1%} of {figures.n_positions:,};"
        f" always {figures.frequent_token!r}: {figures.frequent:.1%}"
    )
    surprisal = (
        f"{figures.nats:.3f} nats, uniform {figures.uniform:.3f};"
        f" special tokens get {figures.special_mass:.2%}"
    )
    return [
        ("texts", texts),
        ("unknown tokens", f"{figures.unknown:.2%}"),
        ("masked accuracy", accuracy),
        ("masked token", surprisal),
    ]


def concerns(model: MaskedLM, figures: OnTexts | None) -> Iterator[str]:
    """One sentence for each thing that looks wrong."""
    from unmask.models.masked_accuracy import masked_entropy

    if model.caution:
        yield model.caution
    if not any(model.words.around()):
        yield (
            "nothing is put before and after a text: most models were trained with a start and an"
            " end token (post_processor)"
        )
    if masked_entropy(model) > NEARLY_UNIFORM * log(model.vocab_size):
        yield (
            "with everything masked its distribution is nearly uniform: the head may not be"
            " trained, or not the model's own"
        )
    if figures is not None:
        yield from _concerns_on_texts(figures)


def _concerns_on_texts(figures: OnTexts) -> Iterator[str]:
    """One sentence for each thing that looks wrong on the user's texts."""
    from unmask.models.first_look import worse_than_uniform

    if figures.n_refused == 1:
        yield f"1 text cannot be read: {figures.why}"
    elif figures.n_refused > 1:
        yield f"{figures.n_refused:,} texts cannot be read, the first because {figures.why}"
    if figures.unknown > MUCH_UNKNOWN:
        share = f"{figures.unknown:.1%} of the tokens are unknown"
        yield f"{share}: the tokenizer may not be the model's, or the texts of another kind"
    if figures.special_mass > MUCH_SPECIAL:
        yield (
            f"{figures.special_mass:.1%} of the probability is on special tokens and unused"
            " outputs: the mask token, the tokenizer or the head may not be those that it was"
            " trained with"
        )
    worse = worse_than_uniform(
        "the masked tokens", figures.nats, figures.nats_error, figures.uniform
    )
    if worse is not None:
        yield worse
    variance = figures.frequent * (1 - figures.frequent) / figures.n_positions
    to_beat = figures.frequent + STANDARD_ERRORS * sqrt(variance)
    if figures.accuracy <= to_beat and figures.accuracy <= GOOD_ACCURACY:
        yield (
            f"it is right in {figures.accuracy:.1%} of the cases, and always saying"
            f" {figures.frequent_token!r} would be in {figures.frequent:.1%}: check the tokenizer,"
            " the mask token and config.json (heads, layer_norm_eps, hidden_act)"
        )
