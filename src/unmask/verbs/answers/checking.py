"""`check`: the facts of a model as it was read, and what looks wrong.

A model that is read wrong still gives numbers, and they look wrong. One that is read right
predicts the masked token more often than the most frequent token alone would, and puts next to
nothing on special tokens. `measure` masks up to MOST_POSITIONS positions of a user's own texts,
one at a time:

    accuracy       how often the masked token is the model's first choice
    frequent       how often it is the most frequent token of these texts: the accuracy of a
                   model that reads nothing
    nats           the mean of -log q(token | rest); a uniform distribution over the V regular
                   tokens has log V
    special mass   the mean probability of special tokens and of outputs that are not tokens
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from math import ceil, log, sqrt
from os import PathLike
from typing import TYPE_CHECKING

import torch
from torch import nn

from unmask.common.batches import of_one_key
from unmask.common.errors import InputError, UnmaskWarning
from unmask.common.files import user_path
from unmask.common.intervals import mean_and_error
from unmask.common.results import Result
from unmask.models.checkpoint_files import TokenizerAbove
from unmask.models.encoder.bert import BertMaskedLM
from unmask.models.first_look import worse_than_uniform
from unmask.models.function_network import FunctionNetwork
from unmask.models.load import Model, reload
from unmask.models.masked_lm import MaskedLM
from unmask.models.weight_checks import LeftOut
from unmask.runs.lines import plain_texts
from unmask.runs.progress import Progress
from unmask.runs.unpacking import source_name

if TYPE_CHECKING:
    import pandas

MUCH_SPECIAL, MUCH_UNKNOWN, NEARLY_UNIFORM = 0.1, 0.02, 0.98
MOSTLY = 0.5
"""A model that is right more often is read right, even where one token is as frequent."""
MOST_TEXTS, MOST_POSITIONS, ROWS = 20_000, 2_000, 64


@dataclass(frozen=True, repr=False)
class Check(Result):
    """A model as it was understood, and `concerns`: what looks wrong; empty if nothing does.

    model, architecture, network   its name or folder; its kind and shape; the class that
                                   computes it
    parameters, dtype, device      how many it has; the number format that it runs in, and where
    tokenizer, cased, tokens       the kind of its tokens; whether upper and lower case differ;
                                   how many it knows
    regular, examples, special     how many tokens can stand in a text; eight of them; the
                                   others that have names
    mask, mask_id, around          the mask token; its number; the tokens put before and after a
                                   text
    outputs, unused                logits per position; those that are not tokens
    longest                        the most tokens of a text, those around it included; None if
                                   there is no limit
    notes                          what is left out, or lies elsewhere, and is right all the same
    on_texts, concerns             figures on the user's texts, if any were given; what looks wrong

    >>> facts = unmask.check()
    >>> facts.mask, facts.cased, facts.tokens
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
    notes: tuple[str, ...]
    on_texts: OnTexts | None
    concerns: tuple[str, ...]

    def rows(self) -> list[tuple[str, str]]:
        """The facts of the model, as pairs of a name and a text."""
        before, after = (" ".join(part) or "nothing" for part in self.around)
        rows = [
            ("model", self.model),
            ("architecture", f"{self.architecture}; {self.parameters:,} parameters"),
            ("computed by", f"{self.network} in {self.dtype} on {self.device}"),
            (
                "tokenizer",
                f"{self.tokenizer}; upper and lower case {'differ' if self.cased else 'are one'}",
            ),
            ("mask token", f"{self.mask} (id {self.mask_id})"),
            ("special tokens", " ".join(self.special)),
            ("regular tokens", f"{self.regular:,}, for example {' '.join(self.examples)}"),
            (
                "outputs",
                f"{self.outputs:,}"
                + (f", {self.unused:,} of them not tokens" if self.unused else ", all tokens"),
            ),
            ("around a text", f"{before} before, {after} after"),
            (
                "longest text",
                (
                    "no limit"
                    if self.longest is None
                    else f"{self.longest:,} tokens, those around it included"
                ),
            ),
            *(("noted", note) for note in self.notes),
        ]
        figures = self.on_texts
        if figures is not None:
            read = (
                f"{figures.texts:,} read, {figures.refused:,} refused, {figures.too_long:,} too"
                " long"
            )
            right = (
                f"{figures.accuracy:.1%} of {figures.positions:,}; always"
                f" {figures.frequent_token!r}: {figures.frequent:.1%}"
            )
            masked = (
                f"{figures.nats:.3f} nats, uniform {figures.uniform:.3f}; special tokens get"
                f" {figures.special_mass:.2%}"
            )
            rows += [
                ("texts", f"{read}; {figures.tokens:,} tokens"),
                ("unknown tokens", f"{figures.unknown:.2%}"),
            ]
            rows += [("masked accuracy", right), ("masked token", masked)]
        return rows

    def to_frame(self) -> pandas.DataFrame:
        """The facts of the model, one row per item, and the concerns after them."""
        import pandas

        rows = [*self.rows(), *(("looks wrong", concern) for concern in self.concerns)]
        return pandas.DataFrame(rows, columns=["item", "found"])

    @property
    def headline(self) -> str:
        """The concerns in one line."""
        return (
            f"What looks wrong: {'; '.join(self.concerns)}."
            if self.concerns
            else "Nothing looks wrong."
        )

    def __repr__(self) -> str:
        lines = [f"{name:<16}{text}" for name, text in self.rows()]
        return "\n".join([*lines, *(f"looks wrong     {concern}" for concern in self.concerns)])


def checked_model(
    model: Model, data: str | PathLike[str] | Sequence[str] | None, progress: Progress | None
) -> Check:
    """The answer of `check`."""
    texts = None if data is None else texts_of(data)
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always", UnmaskWarning)
        lm = model if isinstance(model, MaskedLM) else reload(model)
    messages = [
        (warning.category, str(warning.message))
        for warning in raised
        if issubclass(warning.category, UnmaskWarning)
    ]
    figures = None if texts is None else measure(lm, texts, progress)
    doubts, words = list(concerns(lm, figures)), lm.words
    right = LeftOut if figures is None or doubts else (LeftOut, TokenizerAbove)
    before, after = words.around()
    config = lm.network.config
    shape = [
        f"{value} {what}"
        for name, what in (
            ("num_hidden_layers", "layers"),
            ("hidden_size", "wide"),
            ("num_attention_heads", "heads"),
        )
        if (value := getattr(config, name, None)) is not None
    ]
    step = max(1, len(lm.regular_ids) // 8)
    return Check(
        model=lm.name,
        architecture=", ".join(
            [str(getattr(config, "model_type", type(lm.network).__name__)), *shape]
        ),
        network=_kind(lm.network),
        parameters=sum(weight.numel() for weight in lm.network.parameters()),
        dtype=str(lm.dtype).removeprefix("torch."),
        device=str(lm.device),
        tokenizer=words.kind,
        cased=words.cased,
        tokens=words.size,
        regular=len(lm.regular_ids),
        examples=tuple(lm.words.token(i).strip() for i in lm.regular_ids[step // 2 :: step][:8]),
        special=words.special_tokens,
        mask=words.mask_token,
        mask_id=lm.mask_id,
        around=(tuple(lm.words.tokens(before)), tuple(lm.words.tokens(after))),
        outputs=lm.vocab_size,
        unused=len(words.nameless),
        longest=lm.max_length,
        notes=tuple(message for kind, message in messages if issubclass(kind, right)),
        on_texts=figures,
        concerns=tuple(
            dict.fromkeys([*(m for kind, m in messages if not issubclass(kind, right)), *doubts])
        ),
    )


def _kind(network: nn.Module) -> str:
    if isinstance(network, BertMaskedLM):
        return "unmask's own BERT"
    return (
        "a function"
        if isinstance(network, FunctionNetwork)
        else f"transformers' {type(network).__name__}"
    )


def concerns(model: MaskedLM, figures: OnTexts | None) -> Iterator[str]:
    """One sentence for each thing that looks wrong."""
    if model.caution:
        yield model.caution
    if not any(model.words.around()):
        yield (
            "nothing is put before and after a text: most models were trained with a start and an"
            " end token (post_processor)"
        )
    if _masked_entropy(model) > NEARLY_UNIFORM * log(model.vocab_size):
        yield (
            "with everything masked its distribution is nearly uniform: the head may not be"
            " trained, or not the model's own"
        )
    if figures is None:
        return
    if figures.refused:
        yield f"{figures.refused:,} texts cannot be read, the first because {figures.why}"
    if figures.unknown > MUCH_UNKNOWN:
        share = f"{figures.unknown:.1%} of the tokens are unknown"
        yield f"{share}: the tokenizer may not be the model's, or the texts of another kind"
    if figures.special_mass > MUCH_SPECIAL:
        yield (
            f"{figures.special_mass:.1%} of the probability is on special tokens and unused"
            " outputs: the mask token, the tokenizer or the head may not be those that it was"
            " trained with"
        )
    if worse := worse_than_uniform(
        "the masked tokens", figures.nats, figures.nats_error, figures.uniform
    ):
        yield worse
    chance = figures.frequent + 2 * sqrt(
        figures.frequent * (1 - figures.frequent) / max(1, figures.positions)
    )
    if figures.accuracy <= min(chance, MOSTLY):
        yield (
            f"it is right in {figures.accuracy:.1%} of the cases, and always saying"
            f" {figures.frequent_token!r} would be in {figures.frequent:.1%}: check the tokenizer,"
            " the mask token and config.json (heads, layer_norm_eps, hidden_act)"
        )


def _masked_entropy(model: MaskedLM) -> float:
    """The entropy at the second of four blanks; beside a token, for models that divide by the
    share of tokens (`not_finite`).
    """
    before, after = model.words.around()
    ids = [*before, *[model.mask_id] * 4, *(after if before or after else model.regular_ids[:1])]
    log_q = (
        model.logits_at(torch.tensor([ids]), torch.tensor([[len(before) + 1]]))[0, 0]
        .double()
        .log_softmax(-1)
    )
    return -float((log_q.exp() * log_q).sum())


@dataclass(frozen=True)
class OnTexts:
    """Figures of a model on the user's texts.

    texts, tokens     how many were read; tokens without start and end
    refused, why      texts that could not be read, and why the first of them
    too_long          texts with more tokens than the model takes
    unknown           share of tokens that the model does not know
    positions         how many were masked, one at a time
    nats_error        the standard error of `nats`; `uniform`: log V
    """

    texts: int
    tokens: int
    refused: int
    why: str | None
    too_long: int
    unknown: float
    positions: int
    accuracy: float
    frequent: float
    frequent_token: str
    nats: float
    nats_error: float
    uniform: float
    special_mass: float


def texts_of(data: str | PathLike[str] | Sequence[str]) -> list[str]:
    """The first MOST_TEXTS texts of a list or a file; empty ones are left out."""
    if isinstance(data, str | PathLike):
        path = user_path(data, "data")
        name, texts = repr(source_name(path)), plain_texts(path)
    else:
        name, texts = "data", (text for text in data if text.strip())
    if not (first := list(islice(texts, MOST_TEXTS))):
        raise InputError(
            f"{name} holds no text: give a list of texts, or a file with one text per line, or"
            " FASTA"
        )
    return first


@torch.no_grad()
def measure(model: MaskedLM, texts: Sequence[str], progress: Progress | None = None) -> OnTexts:
    """The figures of `OnTexts`."""
    special, unknown_id = set(model.special_ids), model.words.unknown_id
    rows, why, refused, too_long, unknown, tokens = [], None, 0, 0, 0, 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnmaskWarning)
        for text in texts:
            try:
                ids = model.words.encode(text)
            except InputError as error:
                refused, why = refused + 1, why or str(error)
                continue
            unknown += sum(i == unknown_id for i in ids)
            tokens += sum(i not in special or i == unknown_id for i in ids)
            too_long += model.max_length is not None and len(ids) > model.max_length
            rows.append(ids[: model.max_length])
    places = [
        (row, place)
        for row, ids in enumerate(rows)
        for place, i in enumerate(ids)
        if i not in special
    ]
    if not places:
        because = "" if why is None else f" ({why})"
        raise InputError(
            f"none of the {len(texts):,} texts has a token that the model knows{because}: give"
            " texts of its own kind"
        )
    common = Counter(rows[row][place] for row, place in places).most_common(1)[0][0]
    masked = places[:: ceil(len(places) / MOST_POSITIONS)]
    right, mass, surprises = 0, 0.0, list[float]()
    ruled_out = torch.tensor(sorted(special), dtype=torch.long)
    for part in of_one_key(masked, lambda place: len(rows[place[0]]), ROWS):
        batch, where = (
            torch.tensor([rows[row] for row, _ in part]),
            torch.tensor([[place] for _, place in part]),
        )
        log_q = (
            model.logits_at(batch.scatter(1, where, model.mask_id), where)[:, 0]
            .double()
            .log_softmax(-1)
            .cpu()
        )
        gold = batch.gather(1, where)[:, 0]
        right += int((log_q.argmax(-1) == gold).sum())
        surprises += (-log_q.gather(1, gold[:, None])[:, 0]).tolist()
        mass += float(log_q[:, ruled_out].exp().sum())
        if progress:
            progress(len(surprises), len(masked), "masked positions")
    nats, nats_error = mean_and_error(surprises)
    return OnTexts(
        texts=len(rows),
        tokens=tokens,
        refused=refused,
        why=why,
        too_long=too_long,
        unknown=unknown / max(1, tokens),
        positions=len(masked),
        accuracy=right / len(masked),
        frequent=sum(rows[row][place] == common for row, place in masked) / len(masked),
        frequent_token=model.words.token(common),
        nats=nats,
        nats_error=nats_error,
        uniform=log(len(model.regular_ids)),
        special_mass=mass / len(masked),
    )
