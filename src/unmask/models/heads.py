"""Networks as functions from token ids to logits at chosen positions, and the types that need care.

A masked language model is head(encoder(ids)), and the head works on each position by itself, so
head(encoder(ids))[positions] = head(encoder(ids)[positions]). A forward hook on the encoder
gathers the rows of its last hidden state at the positions asked for before the architecture's
own head code sees them: with 16 tokens a row, that saves fifteen sixteenths of the logits. Our
own network offers its encoder and its head separately, so it needs no hook.

Any function of ids (n, T) to logits (n, T, V), or to an object whose `logits` are that, is a
network too, unless it is causal: logits that change with the tokens before a position and never
with those after it give the conditionals of no blank in a text.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from unmask.common import checks
from unmask.common.errors import ModelError
from unmask.common.files import first_line
from unmask.models.batching import is_out_of_memory, passes
from unmask.models.encoder.bert import BertMaskedLM
from unmask.models.encoder.linear_maps import HALF_TYPES

logger = logging.getLogger(__name__)
TENSOR_CORE_ROWS = 64
WEIGHT_READERS = ("mobilebert",)
"""Types whose head multiplies by the output layer's weight itself, which keeps its number
format.
"""
PROBES, PROBE_TOKENS = 4, 5
HASH_SEED = 0  # Reformer's seed, if config.json has no hash_seed.
EXPECTED = {
    "layoutlm": "the box of each token on its page (bbox)",
    "modernvbert": "images (pixel_values)",
    "neomme": "images (pixel_values)",
    "roc_bert": (
        "the shape and the pronunciation of each character (input_shape_ids,"
        " input_pronunciation_ids)"
    ),
    "tapas": "a table, with the row and column of each token (token_type_ids)",
    "ultravbert": "images (pixel_values)",
}
"""Inputs that a text does not have, by type."""


def head_of(network: nn.Module, name: str) -> Any:
    """The head of a network, at chosen positions; `name` as in `MaskedLM`."""
    if isinstance(network, BertMaskedLM):
        return OwnHead(network)
    return (
        WholeHead(network)
        if isinstance(network, FunctionNetwork)
        else PositionedHead(network, name)
    )


class WholeHead:
    """Logits of a function, which computes them everywhere."""

    position_by_position = False

    def __init__(self, network: Any) -> None:
        self.network, self.encoder = network, network.base_model

    def __call__(
        self, ids: Int[Tensor, "n T"], positions: Int[Tensor, "n p"]
    ) -> Float[Tensor, "n p V"]:
        """Logits at `positions`, in float32 or wider; one forward pass."""
        return rows_at(self.network(ids), positions)

    def logits_width(self, mask_id: int) -> int:
        """The number of logits per position."""
        return int(self.network.outputs)


class OwnHead(WholeHead):
    """The head of our own network."""

    position_by_position = True

    def __call__(
        self, ids: Int[Tensor, "n T"], positions: Int[Tensor, "n p"]
    ) -> Float[Tensor, "n p V"]:
        """Logits at `positions`; one forward pass."""
        return self.of_hidden(rows_at(self.encoder(ids), positions))

    def of_hidden(self, hidden: Float[Tensor, "n p d"]) -> Float[Tensor, "n p V"]:
        """The head alone, on last hidden states that the caller has computed."""
        return widened(self.network.head(hidden))


class PositionedHead:
    """Calls a Hugging Face masked language model so that its head runs on the asked positions
    alone.

    Logits come out in float32 or wider. The lock makes calls from several threads take turns.
    """

    def __init__(self, network: nn.Module, name: str) -> None:
        self.network, self.name, self.position_by_position = network, name, True
        self.encoder: Any = network.base_model
        if self.encoder is network:
            raise ModelError(
                f"{type(network).__name__} has no encoder below its head: use a BERT-like"
                " checkpoint"
            )
        self._lock, self._fresh = threading.Lock(), FreshPass(network)

    def __call__(
        self, ids: Int[Tensor, "n T"], positions: Int[Tensor, "n p"]
    ) -> Float[Tensor, "n p V"]:
        """Logits at `positions`; one forward pass."""
        return (
            self._at(ids, positions)
            if self.position_by_position
            else rows_at(self.everywhere(ids), positions)
        )

    def _at(self, ids: Tensor, positions: Tensor) -> Tensor:
        def gather(_encoder: Any, _inputs: Any, output: Any) -> Any:
            states = rows_at(output[0], positions)
            if isinstance(output, tuple):
                return (states, *output[1:])
            output["last_hidden_state"] = states
            return output

        with self._lock:
            hook = self.encoder.register_forward_hook(gather)
            try:
                return self._pass(ids)
            finally:
                hook.remove()

    def everywhere(self, ids: Int[Tensor, "n T"]) -> Float[Tensor, "n T V"]:
        """Logits at all positions: the network as it is. Perceiver has some for positions after
        the text, which are cut off.
        """
        with self._lock:
            return self._pass(ids)[:, : ids.shape[1]]

    def _pass(self, ids: Int[Tensor, "n T"]) -> Tensor:
        """The network's logits, as if these texts were its first."""
        try:
            with self._fresh(ids.shape[1]):
                return widened(self.network(input_ids=ids).logits)
        except Exception as error:
            if is_out_of_memory(error):
                raise
            dtype = next(self.network.parameters()).dtype
            advice = (
                "load it with dtype float32"
                if dtype in HALF_TYPES
                else "correct its config.json, or use another model"
            )
            raise ModelError(
                f"{self.name} cannot pass a text of {ids.shape[1]} tokens in {str(dtype)[6:]}:"
                f" transformers' {type(self.network).__name__} fails ({first_line(error)});"
                f" {advice}"
            ) from error

    @torch.no_grad()
    def logits_width(self, mask_id: int) -> int:
        """The number of logits per position; checks that the head works position by position,
        or else runs it on all.
        """
        ids = torch.tensor([[mask_id, 0, mask_id]], device=next(self.network.parameters()).device)
        positions = torch.tensor([[2, 0]], device=ids.device)
        whole, gathered = self.everywhere(ids), self._at(ids, positions)
        expected = rows_at(whole, positions)
        self.position_by_position = gathered.shape == expected.shape and torch.allclose(
            gathered, expected, atol=1e-3, rtol=1e-2
        )
        if not self.position_by_position:
            logger.warning(
                "the head of %s mixes positions: it runs on all of them",
                type(self.network).__name__,
            )
        return whole.shape[-1]

    def of_hidden(self, hidden: Float[Tensor, "n p d"]) -> Float[Tensor, "n p V"]:
        """The head alone, on last hidden states that the caller has computed."""
        from transformers.modeling_outputs import BaseModelOutput

        ids = torch.zeros((1, 1), dtype=torch.long, device=hidden.device)
        with self._lock:
            original = vars(self.encoder).get("forward")
            self.encoder.forward = lambda *_, **__: BaseModelOutput(hidden)  # type: ignore[arg-type]
            try:
                return widened(self.network(input_ids=ids).logits)
            finally:
                del self.encoder.forward
                if original is not None:
                    self.encoder.forward = original


class Float32Output(nn.Linear):
    """A half-precision network's output layer with float32 results: a logit near 20 has steps
    of 1/8 in bfloat16.
    """

    @classmethod
    def of(cls, linear: nn.Linear) -> Float32Output:
        """A layer with the same weights: float32 on a CPU, half precision on a GPU, whose
        products accumulate in float32 anyway.

        There rows of zeros fill them up to a multiple of TENSOR_CORE_ROWS, as fast products
        need; their logits are cut off.
        """
        wide = cls(
            linear.in_features, linear.out_features, bias=linear.bias is not None, device="meta"
        )
        weight = linear.weight.detach()
        if weight.device.type == "cuda":
            weight = functional.pad(weight, (0, 0, 0, -len(weight) % TENSOR_CORE_ROWS))
        wide.weight = nn.Parameter(
            weight if weight.device.type == "cuda" else weight.float(), requires_grad=False
        )
        if linear.bias is not None:
            wide.bias = nn.Parameter(linear.bias.detach().float(), requires_grad=False)
        return wide

    def forward(self, hidden: Tensor) -> Tensor:
        """Logits in float32."""
        if hidden.device.type != "cuda":
            return functional.linear(hidden.float(), self.weight, self.bias)
        product = torch.mm(hidden.flatten(0, -2), self.weight.t(), out_dtype=torch.float32)[
            :, : self.out_features
        ]
        logits = product.unflatten(0, hidden.shape[:-1])
        return logits if self.bias is None else logits.add_(self.bias)


def widen_output(network: Any) -> None:
    """Give a half-precision network an output layer whose results are float32, if it has a
    plain linear one.
    """
    output, plain = network.get_output_embeddings(), network.config.model_type not in WEIGHT_READERS
    if plain and isinstance(output, nn.Linear) and output.weight.dtype in HALF_TYPES:
        network.set_output_embeddings(Float32Output.of(output))


def rows_at(
    values: Float[Tensor, "n T m"], positions: Int[Tensor, "n p"]
) -> Float[Tensor, "n p m"]:
    """The values at `positions` of each text."""
    return torch.gather(values, 1, positions.unsqueeze(-1).expand(-1, -1, values.shape[-1]))


def widened(logits: Tensor) -> Tensor:
    """The logits in float32 or wider."""
    return logits.float() if logits.dtype in HALF_TYPES else logits


def refuse_type(config: Any, name: str) -> None:
    """Raise for a type, or a setting of it, that transformers does not compute right."""
    kind, why = getattr(config, "model_type", None), ""
    if kind == "mra":
        why = (
            "transformers has its attention only as a CUDA kernel for texts of 32, 64, ... tokens,"
            " and gives zeros without it"
        )
    elif kind == "nystromformer" and config.num_landmarks != config.segment_means_seq_len:
        why = (
            f"with num_landmarks {config.num_landmarks} and segment_means_seq_len"
            f" {config.segment_means_seq_len} in its config.json its attention mixes the texts of a"
            " batch"
        )
    elif kind == "yoso" and not config.use_expectation:
        why = (
            "with use_expectation false in its config.json its attention is drawn at random, by a"
            " CUDA kernel"
        )
    elif kind in ("flaubert", "xlm") and config.causal:
        why = "with causal true in its config.json it does not look ahead"
    elif kind == "flaubert" and config.pre_norm:
        why = "with pre_norm true in its config.json transformers' pass fails"
    if why:
        raise ModelError(f"{name} is a {kind} model, and {why}: use another model")


def caution(config: Any, name: str, dtype: torch.dtype) -> str | None:
    """A sentence about a type whose answers may be far off; None for all others."""
    kind = str(getattr(config, "model_type", None))
    what = EXPECTED.get(kind)
    if kind in ("flaubert", "xlm") and config.use_lang_emb and config.n_langs > 1:
        what = "the language of each text (langs)"
    if kind == "roc_bert" and not (config.enable_shape or config.enable_pronunciation):
        what = None
    if kind == "reformer" and dtype != torch.float64:
        return (
            f"{name} (reformer) hashes its queries, and rounding moves them to other buckets: in"
            f" {str(dtype)[6:]} its log-probabilities are up to 0.8 nats from those in float64, in"
            " transformers too; load it with dtype float64"
        )
    return what and (
        f"{name} ({kind}) was trained with {what}, and is given none: its answers may be far off,"
        " do not rely on them"
    )


class FreshPass:
    """Makes a pass independent of earlier passes."""

    def __init__(self, network: nn.Module) -> None:
        config: Any = network.config
        kind = getattr(config, "model_type", None)
        self.network, self.device = network, next(network.parameters()).device
        self.sparse = kind == "big_bird" and config.attention_type == "block_sparse"
        self.hashing = [
            module
            for module in network.modules()
            if kind == "reformer" and hasattr(module, "hash_seed")
        ]
        self.unset = [module for module in self.hashing if config.num_buckets is None]
        for module in self.hashing:
            module.hash_seed = HASH_SEED if module.hash_seed is None else module.hash_seed  # type: ignore[assignment]

    @contextlib.contextmanager
    def __call__(self, tokens: int) -> Iterator[None]:
        """Inside, the network passes texts of this many tokens as if they were its first."""
        if self.sparse:
            config: Any = self.network.config
            full = tokens <= (5 + 2 * config.num_random_blocks) * config.block_size
            self.network.base_model.set_attention_type("original_full" if full else "block_sparse")  # type: ignore[union-attr, operator]
        for module in self.unset:
            module.num_buckets = None  # type: ignore[assignment]
        devices = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(
            devices, enabled=bool(self.hashing)
        ):  # Reformer sets the seed of the whole process
            yield


class FunctionNetwork(nn.Module):
    """A function in the place of a network of transformers; a function that is a module keeps
    its parameters.
    """

    def __init__(
        self, function: Callable[..., Any], tokenizer: Any, device: torch.device | None
    ) -> None:
        super().__init__()
        self.function = function
        first = next(function.parameters(), None) if isinstance(function, nn.Module) else None
        self.place = device or (torch.device("cpu") if first is None else first.device)
        beyond = tokenizer.mask_token_id + 1
        logits = self(torch.tensor([[0, tokenizer.mask_token_id, 0]], device=self.place))
        if bool(logits.isnan().any()):
            raise ModelError(
                "the function gave NaN logits: return finite logits, or -inf for tokens that"
                " cannot be"
            )
        self.outputs = logits.shape[-1]
        if first is None:
            self.register_parameter(
                "stand_in", nn.Parameter(logits.new_zeros(1), requires_grad=False)
            )
        known = getattr(function, "config", None)
        width, longest = (
            getattr(known, name, None) for name in ("hidden_size", "max_position_embeddings")
        )
        self.config = SimpleNamespace(
            model_type="function", hidden_size=width or 1024, max_position_embeddings=longest
        )
        self.table = SimpleNamespace(
            weight=torch.empty((max(self.outputs, beyond), 1), device="meta")
        )

    @property
    def base_model(self) -> nn.Module:
        """The module itself: a function has no part below its head."""
        return self

    @passes()
    def forward(self, ids: Int[Tensor, "n T"]) -> Float[Tensor, "n T V"]:
        """The function's logits in float32 or wider; raises where they are not logits of these
        ids.
        """
        called = f"function {getattr(self.function, '__name__', type(self.function).__name__)!r}"
        try:
            output = self.function(ids)
        except (MemoryError, torch.OutOfMemoryError):
            raise
        except Exception as error:
            raise ModelError(
                f"{called} failed on ids of shape {tuple(ids.shape)} on {ids.device}"
                f" ({first_line(error)}): give a function from token ids to logits, and device="
                " where its weights are"
            ) from None
        logits = getattr(output, "logits", output)
        if not isinstance(logits, Tensor) or logits.shape[:-1] != ids.shape:
            wrong = (
                f"shape {tuple(logits.shape)}"
                if isinstance(logits, Tensor)
                else checks.shown(logits)
            )
            raise ModelError(
                f"{called} gave {wrong} for ids of shape {tuple(ids.shape)}: return logits of shape"
                " (n, T, V)"
            )
        if logits.layout != torch.strided or logits.is_meta:
            raise ModelError(
                f"{called} gave a tensor that is sparse or has no data: return a dense tensor of"
                " logits"
            )
        if not logits.is_floating_point():
            raise ModelError(
                f"{called} gave logits in {str(logits.dtype)[6:]}: return floating-point numbers"
            )
        return widened(logits)

    def get_input_embeddings(self) -> Any:
        """A table with as many rows as ids are known."""
        return self.table

    @torch.no_grad()
    def probed(self, mask_id: int) -> Float[Tensor, "n T V"]:
        """Logits of a few fixed texts, by which a function without parameters is known."""
        ids = probe_texts(self.outputs)
        ids[:, 1::2] = mask_id
        return self(ids.to(self.place))


def probe_texts(tokens: int) -> Int[Tensor, "n T"]:
    """A few texts of random ids."""
    return torch.randint(tokens, (PROBES, PROBE_TOKENS), generator=torch.Generator().manual_seed(0))


@passes()
def refuse_causal(
    logits: Callable[[Tensor], Tensor], mask_id: int, tokens: int, device: torch.device, name: str
) -> None:
    """Raise if the logits at the middle of a text change with the tokens before it and not with
    those after it.
    """
    ids, middle = probe_texts(tokens), PROBE_TOKENS // 2
    ids[:, middle] = mask_id
    left, right = ids.clone(), ids.clone()
    left[:, :middle], right[:, middle + 1 :] = (
        ids.roll(1, 0)[:, :middle],
        ids.roll(1, 0)[:, middle + 1 :],
    )
    at = logits(torch.cat([ids, left, right]).to(device))[:, middle].view(3, PROBES, -1)
    moved = [(at[0] - at[i]).abs().nan_to_num(0.0).max() for i in (1, 2)]
    if moved[0] > 0 and moved[1] == 0:
        raise ModelError(
            f"{name} is causal (no token changes the logits before it): give a network in which"
            " every position sees all others"
        )
