"""The network of a run, new or read from a folder, and its training forward pass: packed rows,
head only where needed.

Post-norm layers as in BERT: h = LN(x + attention(x)), out = LN(h + W_2 gelu(W_1 h)); logits = E
LN(gelu(W h)) + bias with E the word embeddings. Three differences from the plain definition in
`models/encoder/bert.py`, none in what is computed: attention is limited to the segment by a
bias; the head runs on a static number of gathered positions only; and each of the three stages
(embed, one layer, head and loss) is compiled once and reused for all layers, with weights cast
to `dtype` inside.

Equal commands give equal bits on one kind of device, a GPU included. Floating-point sums depend
on their order. On a GPU many threads add to one number by atomic additions, in the order in
which they happen to arrive, and compiled code chooses among equivalent programs by a stopwatch.
Within `one_order` torch sums in a fixed order or refuses, and compiled code is chosen by rule.
Two lookups would be slow that way, so they avoid such sums: rows are looked up outside compiled
code, where the gradient of a table sorts its rows, and the gradient of gathered rows is a
gather.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.utils.deterministic
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from unmask.common.errors import InputError
from unmask.models.checkpoint import read_own_bert
from unmask.models.checkpoint_files import Source, refuse_non_finite
from unmask.models.encoder.bert import BertMaskedLM, BertShape
from unmask.models.text.vocabulary import (
    load_word_pieces,
    refuse_other_vocabulary,
    tokenizer_difference,
)
from unmask.runs.fingerprint import fingerprint
from unmask.studies.training.packed_text import PackedText

if TYPE_CHECKING:
    from unmask.studies.training.settings import TrainSettings

WORKSPACE, FIXED_WORKSPACES = "CUBLAS_WORKSPACE_CONFIG", (":4096:8", ":16:8")
"""cuBLAS reads it: matrix products are reproducible in workspaces of fixed number and size."""
INITIAL_DEVIATION = 0.02


def new_model(settings: TrainSettings, vocab_size: int, pad: int = 0) -> BertMaskedLM:
    """A network with one type of segment and tied embeddings.

    Weights are normal of deviation 0.02, biases 0. They are drawn in the order in which Hugging
    Face's BertForMaskedLM draws its own (for the encoder and then for the head: torch's
    defaults, and the normals over them), so that a seed gives the model that it gives there.
    """
    shape = BertShape(
        vocab_size=vocab_size,
        hidden_size=settings.width,
        num_hidden_layers=settings.layers,
        num_attention_heads=settings.heads,
        intermediate_size=4 * settings.width,
        hidden_act="gelu",
        max_position_embeddings=settings.max_length,
        type_vocab_size=1,
        layer_norm_eps=1e-12,
    )
    network = BertMaskedLM(shape).to_empty(device="cpu")
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(settings.seed)
        for part in (network.bert, network.cls):
            drawn = [
                m for m in part.modules() if isinstance(m, nn.Linear | nn.Embedding | nn.LayerNorm)
            ]
            for module in drawn:
                module.reset_parameters()
            for module in drawn:
                if not isinstance(module, nn.LayerNorm):
                    module.weight.normal_(0.0, INITIAL_DEVIATION)
        for name, parameter in network.named_parameters():
            if name.endswith("bias"):
                parameter.zero_()
        network.get_input_embeddings().weight[pad] = 0.0
    network.tie()
    return network


@dataclass(frozen=True)
class Start:
    """A model to start from: its network in float32, which the run trains in place, and the
    fingerprint of its first weights.
    """

    folder: Path
    network: BertMaskedLM
    weights: str

    @classmethod
    def read(cls, folder: Path, causal: bool = False) -> Start:
        """The masked (or causal) language model of a folder; raises InputError if it is not a
        BERT with a tokenizer.json.
        """
        if not (folder / "tokenizer.json").is_file():
            raise InputError(
                f"init {str(folder)!r} has no tokenizer.json: give a folder that `unmask train`"
                " wrote"
            )
        source = Source(str(folder))
        if causal != bool(source.config.get("is_decoder")):
            what = (
                "not a causal model: give one, or leave out"
                if causal
                else "a causal model: give a masked one, or"
            )
            raise InputError(f"init {str(folder)!r} is {what} --objective causal")
        refuse_other_vocabulary(load_word_pieces(folder), source)
        network = read_own_bert(source, torch.float32, decoder=causal)
        if (
            network is None
            or network.config.hidden_act != "gelu"
            or not network.config.tie_word_embeddings
        ):
            raise InputError(
                f"init {str(folder)!r} is not a BERT (gelu, tied words): give a folder that `unmask"
                " train` wrote"
            )
        refuse_non_finite(network, source.name)
        return cls(folder, network, fingerprint(network.state_dict()))

    @property
    def shape(self) -> dict[str, int]:
        """The settings that this model fixes."""
        c = self.network.config
        values = (c.num_hidden_layers, c.hidden_size, c.num_attention_heads, c.vocab_size)
        return dict(zip(("layers", "width", "heads", "vocab"), values, strict=True))

    def refuse_other_tokenizer(self, path: Path) -> None:
        """Raise InputError if the tokenizer at `path` gives other ids: every weight would
        belong to another word.
        """
        if difference := tokenizer_difference(
            load_word_pieces(self.folder), load_word_pieces(path)
        ):
            raise InputError(
                f"the tokenizer {str(path)!r} is not that of init {str(self.folder)!r}"
                f" ({difference}): leave out --tokenizer, or leave out --init to train a new model"
                " with it"
            )

    def refuse_other_sizes(self, max_length: int, vocab_size: int) -> None:
        """Raise InputError if texts or tokens would have no embeddings."""
        config = self.network.config
        if max_length > config.max_position_embeddings:
            raise InputError(
                f"max_length {max_length} is more than the {config.max_position_embeddings}"
                f" positions of {str(self.folder)!r}: give a smaller --max-length"
            )
        if vocab_size > config.vocab_size:
            raise InputError(
                f"the tokenizer of {str(self.folder)!r} has {vocab_size:,} tokens and the model"
                f" {config.vocab_size:,}: use the tokenizer that the model was trained with"
            )


@contextmanager
def one_order(device: torch.device) -> Iterator[None]:
    """Sums in a fixed order; on a GPU also TF32 products, and attention with a reproducible
    gradient. All restored afterwards.
    """
    if device.type == "cuda" and os.environ.get(WORKSPACE) not in FIXED_WORKSPACES:
        os.environ[WORKSPACE] = FIXED_WORKSPACES[0]
    before = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )
    deterministic: Any = torch.utils.deterministic
    filled, precision = (
        deterministic.fill_uninitialized_memory,
        torch.get_float32_matmul_precision(),
    )
    cudnn = torch.backends.cuda.cudnn_sdp_enabled()
    torch.use_deterministic_algorithms(True)
    deterministic.fill_uninitialized_memory = False
    if device.type == "cuda":
        torch.set_float32_matmul_precision("high")
        torch.backends.cuda.enable_cudnn_sdp(False)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])
        deterministic.fill_uninitialized_memory = filled
        torch.set_float32_matmul_precision(precision)
        torch.backends.cuda.enable_cudnn_sdp(cudnn)


def compile_options() -> dict[str, Any]:
    """Options of torch.compile that keep measured times from deciding the order of sums."""
    known = torch._inductor.list_options()
    return {"deterministic": True} if "deterministic" in known else {"shape_padding": False}


class Affine(NamedTuple):
    """Weight and bias of a linear map or a layer norm."""

    weight: Float[Tensor, ...]
    bias: Float[Tensor, " out"]


class LayerWeights(NamedTuple):
    """One encoder layer."""

    query: Affine
    key: Affine
    value: Affine
    attended: Affine
    attended_norm: Affine
    widen: Affine
    narrow: Affine
    out_norm: Affine


class HeadWeights(NamedTuple):
    """The prediction head; `words` is tied to the word embeddings."""

    dense: Affine
    norm: Affine
    words: Affine


def _affine(module: nn.Module) -> Affine:
    return Affine(module.weight, module.bias)  # type: ignore[arg-type]


def _linear(x: Float[Tensor, "*n D"], w: Affine) -> Float[Tensor, "*n out"]:
    return F.linear(x, w.weight.to(x.dtype), w.bias.to(x.dtype))


def _norm(x: Float[Tensor, "*n D"], w: Affine, eps: float) -> Float[Tensor, "*n D"]:
    return F.layer_norm(x.to(w.weight.dtype), w.weight.shape, w.weight, w.bias, eps).to(x.dtype)


def _dropped(x: Float[Tensor, "R L D"], share: float) -> Float[Tensor, "R L D"]:
    return F.dropout(x, share) if share else x


def embed(
    word: Float[Tensor, "R L D"],
    position: Float[Tensor, "R L D"],
    same: Bool[Tensor, "R L L"],
    kind: Float[Tensor, "types D"],
    norm: Affine,
    dtype: torch.dtype,
    eps: float,
) -> tuple[Float[Tensor, "R L D"], Float[Tensor, "R 1 L L"]]:
    """Input of the first layer, and the attention bias: 0 within a segment, -inf across."""
    bias = torch.zeros(same.shape, dtype=dtype, device=same.device).masked_fill(~same, -torch.inf)
    return _norm(word + position + kind[0], norm, eps).to(dtype), bias.unsqueeze(1)


def encoder_layer(
    x: Float[Tensor, "R L D"],
    bias: Float[Tensor, "R 1 L L"],
    w: LayerWeights,
    heads: int,
    eps: float,
    dropout: float = 0.0,
) -> Float[Tensor, "R L D"]:
    """One post-norm layer; `dropout` acts on what the layer adds to its input."""
    rows, length, width = x.shape
    joint = Affine(
        torch.cat([w.query.weight, w.key.weight, w.value.weight]),
        torch.cat([w.query.bias, w.key.bias, w.value.bias]),
    )
    q, k, v = _linear(x, joint).view(rows, length, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
    attended = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
    mixed = _linear(attended.transpose(1, 2).reshape(rows, length, width), w.attended)
    h = _norm(x + _dropped(mixed, dropout), w.attended_norm, eps)
    return _norm(
        h + _dropped(_linear(F.gelu(_linear(h, w.widen)), w.narrow), dropout), w.out_norm, eps
    )


def head(hidden: Float[Tensor, "m D"], w: HeadWeights, eps: float) -> Float[Tensor, "m V"]:
    """Logits over the vocabulary."""
    return _linear(_norm(F.gelu(_linear(hidden, w.dense)), w.norm, eps), w.words)


def head_loss(
    gathered: Float[Tensor, "m D"],
    target: Int[Tensor, " m"],
    w: HeadWeights,
    eps: float,
    smoothing: float = 0.0,
) -> tuple[Float[Tensor, " m"], Bool[Tensor, " m"]]:
    """-log q of the targets at gathered positions, and whether each is the most probable token."""
    logits = head(gathered, w, eps).to(w.words.weight.dtype)
    return (
        F.cross_entropy(logits, target, reduction="none", label_smoothing=smoothing),
        logits.argmax(-1) == target,
    )


class Slots(NamedTuple):
    """A static number of slots for positions of packed rows: the flat position in each, 0 in
    those that are not `filled`.

    `of` is the way back: the slot of each position, or the number of slots if it has no slot.
    """

    position: Int[Tensor, " m"]
    filled: Bool[Tensor, " m"]
    of: Int[Tensor, " n"]

    @classmethod
    def gather(cls, mask: Bool[Tensor, "R L"], capacity: int) -> Slots:
        """The first `capacity` positions in the mask, in their order."""
        flat = mask.flatten()
        count = flat.cumsum(0)
        slot = torch.arange(capacity, device=mask.device)
        filled = slot < count[-1]
        position = torch.where(filled, torch.searchsorted(count, slot + 1), 0)
        return cls(position, filled, torch.where(flat, count - 1, capacity).clamp(max=capacity))


class _Gathered(torch.autograd.Function):
    """hidden[position]; a position has at most one slot, so the gradient is a gather too and
    nothing is summed.

    A slot that is not filled has no gradient: its loss has weight zero.
    """

    @staticmethod
    def forward(ctx: Any, hidden: Float[Tensor, "n D"], slots: Slots) -> Float[Tensor, "m D"]:
        ctx.save_for_backward(slots.of)
        return hidden[slots.position]

    @staticmethod
    def backward(ctx: Any, gradient: Float[Tensor, "m D"]) -> tuple[Float[Tensor, "n D"], None]:  # type: ignore[override]
        (of,) = ctx.saved_tensors
        return torch.cat([gradient, gradient.new_zeros(1, gradient.shape[1])])[of], None


class PackedBert:
    """A network seen through its weights, for packed rows."""

    def __init__(
        self,
        model: Any,
        dtype: torch.dtype = torch.float32,
        compile: bool = False,
        causal: bool = False,
    ) -> None:
        """`causal`: no position sees those after it, except a source, which every position of
        its pair sees.
        """
        self.model, self.dtype, self.compiled, self.causal = model, dtype, compile, causal
        self.heads, self.eps = (
            int(model.config.num_attention_heads),
            float(model.config.layer_norm_eps),
        )
        wrap: Callable[[Any], Any] = (
            torch.compile(dynamic=False, options=compile_options()) if compile else lambda f: f
        )
        self._embed, self._layer = wrap(embed), wrap(encoder_layer)
        self._head, self._head_loss = wrap(head), wrap(head_loss)
        self.layer_weights = [
            LayerWeights(
                *[
                    _affine(m)
                    for m in (
                        layer.attention.self.query,
                        layer.attention.self.key,
                        layer.attention.self.value,
                    )
                ],
                *[
                    _affine(m)
                    for m in (layer.attention.output.dense, layer.attention.output.LayerNorm)
                ],
                *[
                    _affine(m)
                    for m in (layer.intermediate.dense, layer.output.dense, layer.output.LayerNorm)
                ],
            )
            for layer in model.bert.encoder.layer
        ]
        p = model.cls.predictions
        words = Affine(model.bert.embeddings.word_embeddings.weight, p.bias)
        self.head_weights = HeadWeights(
            _affine(p.transform.dense), _affine(p.transform.LayerNorm), words
        )

    def hidden(
        self, ids: Int[Tensor, "R L"], text: PackedText, dropout: float = 0.0
    ) -> Float[Tensor, "n D"]:
        """Last hidden states of all tokens, flattened; `ids` is what the model sees of `text`.
        A source is seen whole.
        """
        seen = (
            text.same.tril() | (text.same & text.source.unsqueeze(1)) if self.causal else text.same
        )
        e = self.model.bert.embeddings
        word, position = (
            F.embedding(ids, e.word_embeddings.weight),
            F.embedding(text.position, e.position_embeddings.weight),
        )
        x, bias = self._embed(
            word,
            position,
            seen,
            e.token_type_embeddings.weight,
            _affine(e.LayerNorm),
            self.dtype,
            self.eps,
        )
        x = _dropped(x, dropout)
        for weights in self.layer_weights:
            x = self._layer(x, bias, weights, self.heads, self.eps, dropout)
        return x.flatten(0, 1)

    def nll(
        self,
        hidden: Float[Tensor, "n D"],
        slots: Slots,
        target: Int[Tensor, " m"],
        smoothing: float = 0.0,
    ) -> tuple[Float[Tensor, " m"], Bool[Tensor, " m"]]:
        """-log q(target) at the positions in the slots, and whether the target is the most
        probable token.
        """
        gathered = _Gathered.apply(hidden, slots)  # type: ignore[no-untyped-call]
        out: tuple[Tensor, Tensor] = self._head_loss(
            gathered, target, self.head_weights, self.eps, smoothing
        )
        return out

    def logits(self, hidden: Float[Tensor, "m D"]) -> Float[Tensor, "m V"]:
        """Logits of gathered hidden states."""
        out: Tensor = self._head(hidden, self.head_weights, self.eps)
        return out
