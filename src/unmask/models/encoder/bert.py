"""BERT as a masked language model, its parts named as Hugging Face's checkpoints name them.

Embedding   e_j = LayerNorm(word[x_j] + type[0] + position[j])
Layer       a = LayerNorm(h + W_o attention(W_q h, W_k h, W_v h)),
            h' = LayerNorm(a + W_2 act(W_1 a))
Head        logits = D LayerNorm(act(W h)) + b
            (D: the word embeddings, if the two are tied)

The forward pass is the plain definition, without dropout. transformers is not imported: that
would take longer than a small model's answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from types import SimpleNamespace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from unmask.models.encoder.architectures import BERT, layer_of
from unmask.models.encoder.layers import Layer, Stream

ACTIVATIONS: dict[str, nn.Module] = {
    "gelu": nn.GELU(),
    "gelu_new": nn.GELU("tanh"),
    "gelu_pytorch_tanh": nn.GELU("tanh"),
    "relu": nn.ReLU(),
}
ONLY_AS_HERE: dict[str, tuple[object, ...]] = {
    "model_type": ("bert",),
    "position_embedding_type": ("absolute",),
    "is_decoder": (False,),
    "is_encoder_decoder": (False,),
    "add_cross_attention": (False,),
    "pruned_heads": ({}, None),
}
"""Settings that would make another network: understood with these values only."""
WITHOUT_EFFECT = frozenset(
    """
    _name_or_path architectures attention_probs_dropout_prob bos_token_id chunk_size_feed_forward
    classifier_dropout cls_token_id directionality dtype eos_token_id finetuning_task
    gradient_checkpointing hidden_dropout_prob id2label initializer_range label2id mask_token_id
    output_attentions output_hidden_states output_past pad_token_id pooler_fc_size
    pooler_num_attention_heads pooler_num_fc_layers pooler_size_per_head pooler_type
    problem_type return_dict sep_token_id tokenizer_class torch_dtype transformers_version
    use_cache
    """.split()
)
"""Settings that do not enter the logits: training, other heads, bookkeeping."""


@dataclass(frozen=True)
class BertShape:
    """The network's shape, under the names of config.json."""

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_size: int
    hidden_act: str
    max_position_embeddings: int
    type_vocab_size: int
    layer_norm_eps: float
    tie_word_embeddings: bool = True
    model_type: str = "bert"

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> BertShape | None:
        """The shape that a config.json states, or None if it states anything that is not
        understood here. The caller then takes transformers' own code.
        """
        ours = {field.name for field in fields(cls)}
        unknown = set(config) - ours - set(ONLY_AS_HERE) - WITHOUT_EFFECT
        if config.get("model_type") != "bert" or unknown:
            return None
        for key, allowed in ONLY_AS_HERE.items():
            if key in config and config[key] not in allowed:
                return None
        try:
            shape = cls(**{key: config[key] for key in ours if key in config})
        except TypeError:  # a setting without a default is missing
            return None
        return shape if shape._is_valid() else None

    def _is_valid(self) -> bool:
        """Whether every setting has the type and the range that a network needs."""
        counts = [getattr(self, field.name) for field in fields(self) if field.type == "int"]
        if not all(type(count) is int and count > 0 for count in counts):  # True is no count
            return False
        if self.hidden_size % self.num_attention_heads != 0:
            return False
        if not isinstance(self.hidden_act, str) or self.hidden_act not in ACTIVATIONS:
            return False
        return type(self.layer_norm_eps) is float and type(self.tie_word_embeddings) is bool


def _table(rows: int, width: int) -> nn.Embedding:
    """Embeddings that are not drawn: on the meta device, that would load torch's compiler."""
    return nn.Embedding(rows, width, _weight=torch.empty(rows, width))


class BertMaskedLM(nn.Module):
    """An encoder, `bert`, and the head, `cls.predictions`; built without memory, to be filled
    with a checkpoint's tensors.
    """

    def __init__(self, config: BertShape) -> None:
        super().__init__()
        self.config = config
        self.outputs: int = config.vocab_size
        with torch.device("meta"):
            self.bert: BertEncoder = BertEncoder(config)
            self.cls: Any = nn.Module()
            self.cls.predictions = Predictions(config)

    @property
    def base_model(self) -> BertEncoder:
        """The network below the head."""
        return self.bert

    def get_input_embeddings(self) -> nn.Embedding:
        """The table of word embeddings."""
        return self.bert.embeddings.word_embeddings

    def get_output_embeddings(self) -> nn.Linear:
        """The last linear map, from states to logits."""
        decoder: nn.Linear = self.cls.predictions.decoder
        return decoder

    def set_output_embeddings(self, decoder: nn.Linear) -> None:
        """Another last linear map."""
        self.cls.predictions.decoder = decoder
        self.cls.predictions.bias = decoder.bias

    def forward(self, input_ids: Int[Tensor, "n T"]) -> SimpleNamespace:
        """Logits at all positions."""
        return SimpleNamespace(logits=self.head(self.bert(input_ids)))

    def head(self, hidden: Float[Tensor, "... d"]) -> Float[Tensor, "... V"]:
        """Logits from last hidden states, each position by itself."""
        logits: Tensor = self.cls.predictions(hidden)
        return logits

    def tied(self) -> dict[str, str]:
        """Tensors that are the same as another if the word embeddings are the last linear map."""
        if not self.config.tie_word_embeddings:
            return {}
        return {
            "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
            "cls.predictions.decoder.bias": "cls.predictions.bias",
        }

    def tie(self) -> None:
        """Make each of those tensors the parameter that it is the same as."""
        for name, original in self.tied().items():
            module, _, attribute = name.rpartition(".")
            setattr(self.get_submodule(module), attribute, self.get_parameter(original))

    def without_positions(self, first: int, end: int) -> BertMaskedLM:
        """The same network, its weights shared, for texts that leave out the positions `first`
        ... `end` - 1: the token at `first` of such a text is taken as the one at `end`."""
        table = self.bert.embeddings.position_embeddings.weight
        remaining = torch.cat([table[:first], table[end:]])
        network = BertMaskedLM(replace(self.config, max_position_embeddings=len(remaining)))
        weights = {**self.state_dict(), "bert.embeddings.position_embeddings.weight": remaining}
        network.load_state_dict(weights, assign=True)
        network.set_output_embeddings(self.get_output_embeddings())
        network.bert.unseen = self.bert.unseen
        return network.eval()


class KeyCache:
    """Keys and values of n texts that were read, for each layer, and which of their tokens may
    be attended to. `T` counts the tokens that were read, `t` those that are added.

    layers   keys and values (n, T, d) of each layer
    seen     whether each token may be attended to (n, T); None before any is read
    """

    def __init__(self) -> None:
        self.layers: list[tuple[Tensor, Tensor]] = []
        self.seen: Tensor | None = None

    def see(self, seen: Bool[Tensor, "n t"]) -> Bool[Tensor, "n T"]:
        """Add tokens that may, or may not, be attended to. Returns `seen` of all tokens."""
        self.seen = seen if self.seen is None else torch.cat([self.seen, seen], 1)
        return self.seen

    def add(
        self, layer: int, key: Float[Tensor, "n t d"], value: Float[Tensor, "n t d"]
    ) -> tuple[Tensor, Tensor]:
        """Add the keys and values of these tokens in a layer. Returns those of all tokens."""
        if layer == len(self.layers):  # the first tokens
            self.layers.append((key, value))
        else:
            keys, values = self.layers[layer]
            self.layers[layer] = (torch.cat([keys, key], 1), torch.cat([values, value], 1))
        return self.layers[layer]

    def take(self, rows: Int[Tensor, " m"]) -> None:
        """Keep some rows, each as often as it is named."""
        self.layers = [(keys[rows], values[rows]) for keys, values in self.layers]
        self.seen = None if self.seen is None else self.seen[rows]


class BertEncoder(nn.Module):
    """Embeddings and layers.

    unseen   the token that no position attends to, if there is one: padding between a source
             and its translation
    """

    def __init__(self, config: BertShape) -> None:
        super().__init__()
        self.unseen: int | None = None
        self.embeddings: Embeddings = Embeddings(config)
        self.encoder: Any = nn.Module()
        self.encoder.layer = nn.ModuleList(
            BertLayer(config) for _ in range(config.num_hidden_layers)
        )

    def forward(
        self, input_ids: Int[Tensor, "n T"], first: int = 0, cache: KeyCache | None = None
    ) -> Float[Tensor, "n T d"]:
        """Last hidden states of tokens from position `first` on.

        With a cache these tokens also attend to those that were read before, and are added to
        it.
        """
        states = self.embeddings(input_ids, first)
        seen = None if self.unseen is None else input_ids != self.unseen
        if cache is not None:
            if seen is None:
                seen = torch.ones_like(input_ids, dtype=torch.bool)
            seen = cache.see(seen)
        for number, layer in enumerate(self.encoder.layer):
            query, key, value = layer.parts.project(states)
            if cache is not None:
                key, value = cache.add(number, key, value)
            mixed = layer.parts.attend(query, key, value, seen)
            states = layer.parts.after_attention(Stream(states, states), mixed).normed
        return states


class Embeddings(nn.Module):
    """Word, position and type; texts are of type 0 throughout."""

    def __init__(self, config: BertShape) -> None:
        super().__init__()
        self.word_embeddings: nn.Embedding = _table(config.vocab_size, config.hidden_size)
        self.position_embeddings: nn.Embedding = _table(
            config.max_position_embeddings, config.hidden_size
        )
        self.token_type_embeddings: nn.Embedding = _table(
            config.type_vocab_size, config.hidden_size
        )
        self.LayerNorm: nn.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def forward(self, input_ids: Int[Tensor, "n t"], first: int = 0) -> Float[Tensor, "n t d"]:
        """The first layer's input, for tokens from position `first` on."""
        end = first + input_ids.shape[1]
        typed = self.word_embeddings(input_ids) + self.token_type_embeddings.weight[0]
        normed: Tensor = self.LayerNorm(typed + self.position_embeddings.weight[first:end])
        return normed


class BertLayer(nn.Module):
    """The modules of one layer, nested as the checkpoints' names are; `parts` computes with
    them, by plain operations.
    """

    def __init__(self, config: BertShape) -> None:
        super().__init__()
        width = config.hidden_size
        inner = nn.Linear(width, config.intermediate_size)
        self.attention: Any = nn.Module()
        self.attention.self = nn.ModuleDict(
            {name: nn.Linear(width, width) for name in ("query", "key", "value")}
        )
        self.attention.output = _dense_and_norm(width, config)
        self.intermediate: nn.ModuleDict = nn.ModuleDict(
            {"dense": inner, "intermediate_act_fn": ACTIVATIONS[config.hidden_act]}
        )
        self.output: nn.ModuleDict = _dense_and_norm(config.intermediate_size, config)
        self.parts: Layer = layer_of(self, BERT, config.num_attention_heads, fused=False)


class Predictions(nn.Module):
    """The head; `bias` lies beside the decoder, whose bias it is, because checkpoints store it
    there.
    """

    def __init__(self, config: BertShape) -> None:
        super().__init__()
        self.transform: nn.ModuleDict = _dense_and_norm(config.hidden_size, config)
        self.activation: nn.Module = ACTIVATIONS[config.hidden_act]
        self.decoder: nn.Linear = nn.Linear(config.hidden_size, config.vocab_size)
        self.bias: nn.Parameter = nn.Parameter(self.decoder.bias.detach().clone())

    def forward(self, hidden: Float[Tensor, "... d"]) -> Float[Tensor, "... V"]:
        """Logits."""
        transformed = self.activation(self.transform["dense"](hidden))
        logits: Tensor = self.decoder(self.transform["LayerNorm"](transformed))
        return logits


def _dense_and_norm(inputs: int, config: BertShape) -> nn.ModuleDict:
    """A linear map from `inputs` numbers to a state, and the norm of it or of a sum with it."""
    norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
    return nn.ModuleDict({"dense": nn.Linear(inputs, config.hidden_size), "LayerNorm": norm})
