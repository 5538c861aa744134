"""The verb `check`: the facts of a model as it was read, and what looks wrong."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import log, sqrt
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

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
ERRORS = 2  # standard errors by which a share must lie above another
MOSTLY = 0.5
"""A model that is right more often is read right, even where one token is as frequent."""
EXAMPLES = 8  # regular tokens that are named
SIZES = {"num_hidden_layers": "layers", "hidden_size": "wide", "num_attention_heads": "heads"}
"""Sizes of a network in its configuration, and in words."""


@dataclass(frozen=True, repr=False)
class Check(Result):
    """A model as it was understood, and `concerns`: what looks wrong; empty if nothing does.

    model, architecture, network   its name or folder; its kind and shape; the class that
                                   computes it
    n_parameters, dtype, device    how many it has; the number format that it runs in, and where
    tokenizer, cased, n_tokens     the kind of its tokens; whether upper and lower case differ;
                                   how many it knows
    n_regular, examples, special   how many tokens can stand in a text; eight of them; the
                                   others that have names
    mask, mask_id, around          the mask token; its number; the tokens put before and after a
                                   text
    n_outputs, n_unused            logits per position; those that are not tokens
    longest                        the most tokens of a text, those around it included; None if
                                   there is no limit
    notes                          what is left out, or lies elsewhere, and is right all the same
    on_texts, concerns             figures on the user's texts, if any were given; what looks wrong

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

    HEADS: ClassVar[tuple[str, str]] = ("item", "found")

    @property
    def rows(self) -> list[dict[str, str]]:
        """What was found of each item, in words: the facts, and the figures on texts."""
        item, found = self.HEADS
        pairs = [*self._facts()]
        pairs += [("noted", note) for note in self.notes]
        if self.on_texts is not None:
            pairs += _figures(self.on_texts)
        return [{item: name, found: text} for name, text in pairs]

    def _facts(self) -> Iterator[tuple[str, str]]:
        """The facts of the model, each with its name."""
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
        before, after = (" ".join(tokens) or "nothing" for tokens in self.around)
        yield "around a text", f"{before} before, {after} after"
        longest = "no limit"
        if self.longest is not None:
            longest = f"{self.longest:,} tokens, those around it included"
        yield "longest text", longest

    def tables(self) -> list[Table]:
        """The facts of the model, and the figures on texts."""
        columns = [Column("", text=True), Column("", text=True)]
        return [Table(columns, [list(row.values()) for row in self.rows])]

    def verdict(self) -> list[str]:
        """What looks wrong, or that nothing does."""
        if self.concerns:
            return [f"looks wrong: {concern}" for concern in self.concerns]
        if self.on_texts is None:
            data = argument_name("data")
            return [f"nothing looks wrong; give {data} to measure it on your texts"]
        return ["nothing looks wrong"]

    def to_frame(self) -> pandas.DataFrame:
        """The facts of the model, one row per item, and the concerns after them."""
        from unmask.common.lazy import pandas

        item, found = self.HEADS
        rows = [*self.rows]
        rows += [{item: "looks wrong", found: concern} for concern in self.concerns]
        return pandas.DataFrame(rows)

    def __repr__(self) -> str:
        item, found = self.HEADS
        lines = [f"{row[item]:<16}{row[found]}" for row in self.rows]
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
    the accuracy.

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

    texts = None if data is None else texts_of(data)  # first: texts that cannot be read cost least
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UnmaskWarning)
        lm = model if isinstance(model, MaskedLM) else reload(model)
    figures = None if texts is None else measure(lm, texts, progress)
    doubts = list(concerns(lm, figures))
    right: tuple[type[Warning], ...] = (LeftOut,)  # warnings that are no reason for concern
    if figures is not None and not doubts:  # the texts show that the tokenizer is the model's
        right = (LeftOut, TokenizerAbove)
    notes = []
    warned_of = []
    for warning in caught:
        if issubclass(warning.category, right):
            notes.append(str(warning.message))
        elif issubclass(warning.category, UnmaskWarning):
            warned_of.append(str(warning.message))
    return Check(
        **_understood(lm),
        notes=tuple(notes),
        on_texts=figures,
        concerns=tuple(dict.fromkeys([*warned_of, *doubts])),  # each once
    )


def _understood(model: MaskedLM) -> dict[str, Any]:
    """The facts of a model, by the fields of `Check`."""
    words = model.words
    config = model.network.config
    kind = str(getattr(config, "model_type", type(model.network).__name__))
    shape = [
        f"{getattr(config, name)} {in_words}"
        for name, in_words in SIZES.items()
        if getattr(config, name, None) is not None
    ]
    before, after = words.around()
    step = max(1, len(model.regular_ids) // EXAMPLES)
    examples = model.regular_ids[step // 2 :: step][:EXAMPLES]  # from all over the vocabulary
    return {
        "model": model.name,
        "architecture": ", ".join([kind, *shape]),
        "network": _network_in_words(model),
        "n_parameters": sum(weight.numel() for weight in model.network.parameters()),
        "dtype": str(model.dtype).removeprefix("torch."),
        "device": str(model.device),
        "tokenizer": words.kind,
        "cased": words.cased,
        "n_tokens": words.size,
        "n_regular": len(model.regular_ids),
        "examples": tuple(words.token(i).strip() for i in examples),
        "special": words.special_tokens,
        "mask": words.mask_token,
        "mask_id": model.mask_id,
        "around": (tuple(words.tokens(before)), tuple(words.tokens(after))),
        "n_outputs": model.vocab_size,
        "n_unused": len(words.nameless),
        "longest": model.max_length,
    }


def _network_in_words(model: MaskedLM) -> str:
    """What computes the logits."""
    from unmask.models.encoder.bert import BertMaskedLM
    from unmask.models.function_network import FunctionNetwork

    if isinstance(model.network, BertMaskedLM):
        return "unmask's own BERT"
    if isinstance(model.network, FunctionNetwork):
        return "a function"
    return f"transformers' {type(model.network).__name__}"


def _figures(figures: OnTexts) -> list[tuple[str, str]]:
    """The figures on texts in words, each with its name."""
    read = f"{figures.n_texts:,} read, {figures.n_refused:,} refused, {figures.n_too_long:,}"
    right = f"{figures.accuracy:.1%} of {figures.n_positions:,}"
    always = f"always {figures.frequent_token!r}: {figures.frequent:.1%}"
    nats = f"{figures.nats:.3f} nats, uniform {figures.uniform:.3f}"
    return [
        ("texts", f"{read} too long; {figures.n_tokens:,} tokens"),
        ("unknown tokens", f"{figures.unknown:.2%}"),
        ("masked accuracy", f"{right}; {always}"),
        ("masked token", f"{nats}; special tokens get {figures.special_mass:.2%}"),
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

    if figures.n_refused:
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
    variance = figures.frequent * (1 - figures.frequent) / max(1, figures.n_positions)
    chance = figures.frequent + ERRORS * sqrt(variance)
    if figures.accuracy <= min(chance, MOSTLY):
        yield (
            f"it is right in {figures.accuracy:.1%} of the cases, and always saying"
            f" {figures.frequent_token!r} would be in {figures.frequent:.1%}: check the tokenizer,"
            " the mask token and config.json (heads, layer_norm_eps, hidden_act)"
        )
