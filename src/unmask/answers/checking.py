"""`check`: the facts of a model that a user brings, as it was read, and what looks wrong.

Figures on the user's own texts are in `on_texts.py`; `concerns` turns them into sentences.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import log, sqrt
from os import PathLike
from typing import TYPE_CHECKING

import torch
from torch import nn

from unmask.answers.asking import worse_than_uniform
from unmask.answers.on_texts import OnTexts, measure, texts_of
from unmask.errors import UnmaskWarning
from unmask.models.encoder.bert import BertMaskedLM
from unmask.models.heads import FunctionNetwork
from unmask.models.load import Model, loaded_anew
from unmask.models.masked_lm import MaskedLM
from unmask.models.source import LeftOut
from unmask.results import Result
from unmask.runs.progress import Progress

if TYPE_CHECKING:
    import pandas

TIMED_ROWS, TIMED_TOKENS = 64, 16
MUCH_SPECIAL, MUCH_UNKNOWN, NEARLY_UNIFORM = 0.1, 0.02, 0.98


@dataclass(frozen=True, repr=False)
class Check(Result):
    """A model as it was understood, and `concerns`: what looks wrong; empty if nothing does.

    model          its name or folder
    architecture   its kind and shape
    network        the class that computes it
    parameters     how many it has
    dtype          the number format that it runs in
    device         where it runs
    tokenizer      the kind of its tokens
    cased          whether upper and lower case differ
    tokens         the size of the tokenizer's vocabulary
    regular        how many of these can stand in a text
    examples       eight of them
    special        the others that have names
    mask           the mask token
    mask_id        its number
    around         the tokens put before and after a text
    outputs        logits per position
    unused         those that are not tokens
    longest        the most tokens of a text, those around it included; None if there is no limit
    head           whether logits are computed at all positions or only at those asked for
    passes_per_second   for texts of 16 tokens
    left_out       tensors of other heads in the folder, which logits do not need
    on_texts       figures on the user's texts, if any were given
    concerns       what looks wrong

    >>> found = unmask.check()
    >>> found.mask, found.cased, found.tokens
    ('[MASK]', True, 8192)
    """

    model: str
    architecture: str
    network: str
    parameters: int
    dtype: str
    device: str
    tokenizer: str
    cased: bool
    tokens: int
    regular: int
    examples: tuple[str, ...]
    special: tuple[str, ...]
    mask: str
    mask_id: int
    around: tuple[tuple[str, ...], tuple[str, ...]]
    outputs: int
    unused: int
    longest: int | None
    head: str
    passes_per_second: float
    left_out: tuple[str, ...]
    on_texts: OnTexts | None
    concerns: tuple[str, ...]

    def rows(self) -> list[tuple[str, str]]:
        """The facts of the model, as pairs of a name and a text."""
        before, after = (" ".join(part) or "nothing" for part in self.around)
        rows = [
            ("model", self.model),
            ("architecture", f"{self.architecture}; {self.parameters:,} parameters"),
            ("computed by", f"{self.network} in {self.dtype} on {self.device}"),
            ("tokenizer", f"{self.tokenizer}; upper and lower case {'differ' if self.cased else 'are one'}"),
            ("mask token", f"{self.mask} (id {self.mask_id})"),
            ("special tokens", " ".join(self.special)),
            ("regular tokens", f"{self.regular:,}, for example {' '.join(self.examples)}"),
            ("outputs", f"{self.outputs:,}" + (f", {self.unused:,} of them not tokens" if self.unused else ", all tokens")),
            ("around a text", f"{before} before, {after} after"),
            ("longest text", "no limit" if self.longest is None else f"{self.longest:,} tokens, those around it included"),
            ("head", self.head),
            ("speed", f"{self.passes_per_second:,.0f} passes of {TIMED_TOKENS} tokens per second"),
            *(("left out", said) for said in self.left_out),
        ]
        found = self.on_texts
        if found is not None:
            rows += [
                (
                    "texts",
                    f"{found.texts:,} read, {found.refused:,} refused, {found.too_long:,} too long; {found.tokens:,} tokens",
                ),
                ("unknown tokens", f"{found.unknown:.2%}"),
                (
                    "masked accuracy",
                    f"{found.accuracy:.1%} of {found.positions:,}; always {found.frequent_token!r}: {found.frequent:.1%}",
                ),
                (
                    "masked token",
                    f"{found.nats:.3f} nats, uniform {found.uniform:.3f}; special tokens get {found.special_mass:.2%}",
                ),
            ]
        return rows

    def to_frame(self) -> pandas.DataFrame:
        """The facts of the model, one row per item, and the concerns after them."""
        import pandas

        rows = [*self.rows(), *(("looks wrong", concern) for concern in self.concerns)]
        return pandas.DataFrame(rows, columns=["item", "found"])

    @property
    def headline(self) -> str:
        """What looks wrong."""
        return f"What looks wrong: {'; '.join(self.concerns)}." if self.concerns else "Nothing looks wrong."

    def __repr__(self) -> str:
        lines = [f"{name:<16}{text}" for name, text in self.rows()]
        return "\n".join([*lines, *(f"looks wrong     {concern}" for concern in self.concerns)])


def checked_model(model: Model, data: str | PathLike[str] | Sequence[str] | None, progress: Progress | None) -> Check:
    """The answer of `check`."""
    texts = None if data is None else texts_of(data)
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always", UnmaskWarning)
        lm = model if isinstance(model, MaskedLM) else loaded_anew(model)
    said = [(warning.category, str(warning.message)) for warning in raised if issubclass(warning.category, UnmaskWarning)]
    found = None if texts is None else measure(lm, texts, progress)
    words = lm.words
    before, after = words.around()
    config = lm.network.config
    shape = [
        f"{value} {what}"
        for name, what in (("num_hidden_layers", "layers"), ("hidden_size", "wide"), ("num_attention_heads", "heads"))
        if (value := getattr(config, name, None)) is not None
    ]
    step = max(1, len(lm.regular_ids) // 8)
    return Check(
        model=lm.name,
        architecture=", ".join([str(getattr(config, "model_type", type(lm.network).__name__)), *shape]),
        network=_kind(lm.network),
        parameters=sum(weight.numel() for weight in lm.network.parameters()),
        dtype=str(lm.dtype).removeprefix("torch."),
        device=str(lm.device),
        tokenizer=words.kind,
        cased=words.cased,
        tokens=words.size,
        regular=len(lm.regular_ids),
        examples=tuple(lm.token(i).strip() for i in lm.regular_ids[step // 2 :: step][:8]),
        special=words.special_tokens,
        mask=words.mask_token,
        mask_id=lm.mask_id,
        around=(tuple(lm.decode(before)), tuple(lm.decode(after))),
        outputs=lm.vocab_size,
        unused=len(words.nameless),
        longest=lm.max_length,
        head=_head(lm),
        passes_per_second=_speed(lm),
        left_out=tuple(message for kind, message in said if issubclass(kind, LeftOut)),
        on_texts=found,
        concerns=tuple(dict.fromkeys([*(m for kind, m in said if not issubclass(kind, LeftOut)), *concerns(lm, found)])),
    )


def _kind(network: nn.Module) -> str:
    if isinstance(network, BertMaskedLM):
        return "unmask's own BERT"
    return "a function" if isinstance(network, FunctionNetwork) else f"transformers' {type(network).__name__}"


def _head(model: MaskedLM) -> str:
    if isinstance(model.network, FunctionNetwork):
        where = "at all positions"
    else:
        where = "at the positions asked for" if model.head.position_by_position else "mixes positions, so it runs on all of them"
    return f"{where}; logits at a position predict the next token" if model.shift else where


def concerns(model: MaskedLM, found: OnTexts | None) -> Iterator[str]:
    """One sentence for each thing that looks wrong."""
    if model.caution:
        yield model.caution
    if not any(model.words.around()):
        yield "nothing is put before and after a text: most models were trained with a start and an end token (post_processor)"
    entropy = _masked_entropy(model)
    if entropy > NEARLY_UNIFORM * log(model.vocab_size):
        yield "with everything masked its distribution is nearly uniform: the head may not be trained, or not the model's own"
    if found is None:
        return
    yield from found.doubts
    if found.refused:
        yield f"{found.refused:,} texts cannot be read, the first because {found.why}"
    if found.unknown > MUCH_UNKNOWN:
        yield f"{found.unknown:.1%} of the tokens are unknown: the tokenizer may not be the model's, or the texts of another kind"
    if found.special_mass > MUCH_SPECIAL:
        yield (
            f"{found.special_mass:.1%} of the probability is on special tokens and unused outputs: the mask token, the tokenizer "
            "or the head may not be those that it was trained with"
        )
    worse = worse_than_uniform("the masked tokens", found.nats, found.nats_error, found.uniform)
    if worse:
        yield worse
    if found.positions and found.accuracy <= found.frequent + 2 * sqrt(found.frequent * (1 - found.frequent) / found.positions):
        yield (
            f"it is right in {found.accuracy:.1%} of the cases, and always saying {found.frequent_token!r} would be in "
            f"{found.frequent:.1%}: check the tokenizer, the mask token and config.json (heads, layer_norm_eps, hidden_act)"
        )


def _masked_entropy(model: MaskedLM) -> float:
    """The entropy at the second of four blanks; beside a token, for models that divide by the share of tokens (`not_finite`)."""
    before, after = model.words.around()
    ids = [*before, *[model.mask_id] * 4, *(after if before or after else model.regular_ids[:1])]
    log_q = model.logits(torch.tensor([ids]), torch.tensor([[len(before) + 1]]))[0, 0].double().log_softmax(-1)
    return -float((log_q.exp() * log_q).sum())


def _speed(model: MaskedLM) -> float:
    """Passes per second of rows that look like texts: one blank among regular tokens."""
    tokens, some = min(TIMED_TOKENS, model.max_length or TIMED_TOKENS), torch.tensor(model.regular_ids)
    ids = some[torch.arange(TIMED_ROWS * tokens) % len(some)].reshape(TIMED_ROWS, tokens)
    where = torch.ones((TIMED_ROWS, 1), dtype=torch.long)
    ids.scatter_(1, where, model.mask_id)
    fastest = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        model.logits(ids, where).sum().item()
        fastest = min(fastest, time.perf_counter() - start)
    return TIMED_ROWS / fastest
