"""A Hugging Face masked language model as a conditional model: logits f_t(. | text) at the
positions asked for.

q_t(x | rest) = softmax f_t(. | rest)[x]. All of `unmask` reads the model through `logits` (any
rows, any positions) and `substitutions` (one text, a few tokens vary, one position predicted:
the V rows of one side of a pair table).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from unmask.common import checks
from unmask.common.cloze import Cloze
from unmask.common.errors import InputError, ModelError
from unmask.common.signature import checked
from unmask.models.batching import RowBatches, RowCost, default_budget, on_device, passes
from unmask.models.checkpoint import input_size, longest_text, resolve_device
from unmask.models.conditional_model import ConditionalModel
from unmask.models.encoder.agreement import agree
from unmask.models.encoder.architectures import find_encoder
from unmask.models.encoder.encoder import Encoder
from unmask.models.encoder.linear_maps import HALF_TYPES
from unmask.models.encoder.substitution import Substitution, plain_logits, shared_logits
from unmask.models.heads import FunctionNetwork, caution, head_of, refuse_causal, refuse_type
from unmask.models.load import load_uncached
from unmask.models.text.blanks import cloze_of
from unmask.models.text.mask_token import with_mask
from unmask.models.text.text_tokenizer import TextTokenizer, refuse_too_long
from unmask.models.text.tokenizer_checks import refuse_foreign_tokenizer
from unmask.runs.fingerprint import fingerprint


class MaskedLM(ConditionalModel):
    """A masked language model and its tokenizer.

    Positions count the model's tokens from 0, its start token included. `special_ids` are the
    ids that cannot replace a word: the tokenizer's special tokens, and ids of the model that
    the tokenizer has no token for.

    The constructor wraps a network of transformers and its tokenizer, and puts it in evaluation
    mode; `load` reads a checkpoint, and `of` takes any function.

    name   what messages call it

    >>> model = unmask.MaskedLM.load()
    >>> model.vocab_size, model.cloze("A [MASK] barked.").block
    (8192, (2,))
    """

    @checked
    def __init__(
        self,
        network: nn.Module,
        tokenizer: Any,
        name: str = "the model",
    ) -> None:
        if not all(
            hasattr(network, part) for part in ("config", "base_model", "get_input_embeddings")
        ):
            raise InputError(
                f"network {checks.shown(network)} is not one of transformers: give what"
                " from_pretrained returns"
            )
        refuse_tokenizer(tokenizer)
        refuse_type(network.config, name)
        self.name, self.network, self.tokenizer = name, network.eval(), tokenizer
        first = next(network.parameters())
        self.device, self.dtype = first.device, first.dtype
        self.max_length = longest_text(network, tokenizer)
        self.input_size = input_size(network)
        refuse_foreign_tokenizer(tokenizer, self.input_size, name)
        self.head = head_of(network, name)
        self.caution = caution(network.config, name, self.dtype)
        self.vocab_size = self.head.logits_width(tokenizer.mask_token_id)
        self.words = TextTokenizer(tokenizer, self.vocab_size)
        self.mask_id, self.special_ids = self.words.mask_id, self.words.special_ids
        if not self.regular_ids:
            raise ModelError(
                f"the tokenizer of {name} has only special tokens: use the one that the model was"
                " trained with"
            )
        self.batches = RowBatches(default_budget(self.device))
        self.cost = RowCost.of(network, self.vocab_size, isinstance(network, FunctionNetwork))
        self.encoder = find_encoder(network)
        self._agreed: set[tuple[str, int]] = set()

    @classmethod
    @checked
    def load(cls, name: Any = None, device: Any = "auto", dtype: Any = "auto") -> MaskedLM:
        """`unmask.load` without its cache: always a new object."""
        return load_uncached(name, device, dtype)

    @classmethod
    @checked
    def of(
        cls,
        function: Callable[..., Any],
        tokenizer: Any,
        mask_id: int | None = None,
        device: str | torch.device | None = None,
        name: str = "the function",
    ) -> MaskedLM:
        """Any function from token ids (n, T) to logits (n, T, V), or to an object that has them
        as `logits`, as a model.

        Use it for networks that need code of their own: load them yourself, and pass the
        network or a function that calls it.

        tokenizer       its tokenizer, of transformers
        mask_id         the id that hides a token [default: the tokenizer's mask token]
        device          where ids are put [default: where the function's parameters are, or the CPU]
        """
        refuse_tokenizer(tokenizer, masked=mask_id is None)
        tokenizer = with_mask(tokenizer, mask_id)
        if isinstance(function, nn.Module):
            function.eval()
        network = FunctionNetwork(
            function, tokenizer, None if device is None else resolve_device(device)
        )
        model = cls(network, tokenizer, name)
        refuse_causal(network, model.mask_id, network.outputs, model.device, name)
        return model

    def __repr__(self) -> str:
        return (
            f"MaskedLM({self.name!r}, {self.vocab_size:,} tokens,"
            f" {str(self.dtype).removeprefix('torch.')} on {self.device})"
        )

    @cached_property
    def regular_ids(self) -> tuple[int, ...]:
        """The token ids that a text can have: all except `special_ids`."""
        special = set(self.special_ids)
        return tuple(i for i in range(self.vocab_size) if i not in special)

    @cached_property
    def fingerprint(self) -> str:
        """Identifies the model: its weights and tokenizer; a function by its logits of a few
        texts, too.
        """
        if isinstance(self.network, FunctionNetwork):
            probed = {"probed": self.network.probed(self.mask_id)}
            return fingerprint(
                self.network.state_dict() | probed, self.words.serialised(), str(self.mask_id)
            )
        return fingerprint(self.network.state_dict(), self.words.serialised())

    @checked
    def cloze(
        self,
        text: str,
        positions: Sequence[int] | None = None,
        targets: Sequence[str] | None = None,
    ) -> Cloze:
        """The text as ids with its blanks: those written in it, or the tokens at `positions`.
        See `blanks.cloze_of`.
        """
        return cloze_of(self.words, text, positions, targets, self.max_length)

    @checked
    def token(self, token_id: int) -> str:
        """Readable text of one token; a space before a word shows as a space, "##" as it is."""
        return self.words.token(token_id)

    def around(self) -> tuple[list[int], list[int]]:
        """The special ids that the tokenizer puts before and after a text."""
        return self.words.around()

    @checked
    def decode(self, ids: Sequence[int] | Tensor) -> list[str]:
        """Readable text of each token."""
        return [self.words.token(i) for i in checks.wholes("ids", ids)]

    @checked
    def text(self, ids: Sequence[int] | Tensor) -> str:
        """The sentence that `ids` spell, without start, end and padding tokens; a blank shows
        as [MASK].
        """
        return self.words.text(ids)

    @checked
    @passes()
    def logits(
        self, ids: Int[Tensor, "n T"], positions: Int[Tensor, "n p"]
    ) -> Float[Tensor, "n p V"]:
        """Logits at `positions` of each row of `ids`; the same numbers whatever the batch size."""
        refuse_outside(ids, positions, self.input_size)
        refuse_too_long(ids.shape[1], self.max_length)
        # as indices, numbers of eight bits would be masks
        ids, positions = ids.to(self.device, torch.long), positions.to(self.device, torch.long)
        n, p = positions.shape
        encoder = self._for_one_position(ids, positions) if p == 1 and n else None
        forward = self.head if encoder is None else partial(self._at_one, encoder)
        cost, most = self.cost.bytes(ids.shape[1], p), self.rows_at_once(ids.shape[1], p)
        parts = self.batches.run(n, cost, lambda rows: forward(ids[rows], positions[rows]), most)
        whole: Tensor | None = None
        for rows, part in parts if self.device.type == "cuda" else self._finite(parts):
            if len(part) == n:
                whole = part
                continue
            whole = part.new_empty((n, p, part.shape[-1])) if whole is None else whole
            whole[rows] = part
        return (
            torch.empty((0, p, self.vocab_size), dtype=torch.float32, device=self.device)
            if whole is None
            else whole
        )

    @passes()
    def offers_states(self, ids: Int[Tensor, "n T"]) -> bool:
        """Whether `states` and `logits_of` work for texts like these: a known architecture that
        gave the right answer here.

        States as wide as the vocabulary are not offered: those who keep conditionals tell
        states from logits by their width.
        """
        first, ends = (
            ids[:1].to(self.device),
            torch.tensor([[0, ids.shape[1] - 1]], device=self.device),
        )
        if self.cost.width == self.vocab_size or self._for_one_position(first, ends[:, :1]) is None:
            return False
        return self._agree(
            self.logits_of(self.states(first, ends)[0]), lambda head: head(first, ends)[0]
        )

    @passes()
    def states(
        self, ids: Int[Tensor, "n T"], positions: Int[Tensor, "n p"]
    ) -> Float[Tensor, "n p d"]:
        """Last hidden states at `positions`, in one call and without waiting for a GPU; see
        `offers_states`.
        """
        assert self.encoder
        return self.encoder.hidden_at(ids, positions)

    @passes()
    def logits_of(self, states: Float[Tensor, "n d"]) -> Float[Tensor, "n V"]:
        """Logits from last hidden states."""
        return self.head.of_hidden(states.unsqueeze(1))[:, 0]

    def multiplications(self, tokens: int) -> int:
        """About how many numbers a pass of a text of `tokens` tokens multiplies: the encoder's
        matrices at every token.
        """
        tables = {
            id(part.weight) for part in self.network.modules() if isinstance(part, nn.Embedding)
        }
        encoder = sum(
            w.numel() for w in self.head.encoder.parameters() if w.dim() > 1 and id(w) not in tables
        )
        return tokens * encoder + self.cost.width * self.vocab_size

    def rows_at_once(self, tokens: int, predicted: int) -> int:
        """The most rows that one call of the network takes; a row's last bits depend on how
        many there are.
        """
        return min(self.cost.rows(tokens), self.batches.rows(self.cost.bytes(tokens, predicted)))

    def _at_one(
        self, encoder: Encoder, ids: Int[Tensor, "n T"], positions: Int[Tensor, "n 1"]
    ) -> Float[Tensor, "n 1 V"]:
        return self.head.of_hidden(encoder.hidden_at(ids, positions))

    def _for_one_position(
        self, ids: Int[Tensor, "n T"], positions: Int[Tensor, "n 1"]
    ) -> Encoder | None:
        """The encoder if its last layer may run at one position only: known architecture, and
        the same answer on a first row.

        Another thread may give `self.encoder` up at any time.
        """
        encoder = self.encoder
        if encoder is None or not self.head.position_by_position or encoder.has_padding(ids):
            return None
        row, at = ids[:1], positions[:1]
        fast, slow = partial(self._at_one, encoder, row, at), lambda head: head(row, at)
        return encoder if self._agreed_at("one", ids.shape[1], fast, slow) else None

    def substitutions(
        self, ids: Sequence[int], vary: Sequence[int], values: Int[Tensor, "n v"], predict: int
    ) -> Iterator[tuple[slice, Float[Tensor, "b V"]]]:
        """Logits at `predict` of `ids` with row i of `values` at the positions `vary`, in
        batches and in order; maybe NaN.
        """
        refuse_too_long(len(ids), self.max_length)
        text, places = (on_device(whole, self.device, torch.long) for whole in (ids, vary))
        values = values.to(self.device)
        with passes():
            plain = partial(plain_logits, self.head, text, places, predict)
            logits_of = self._shared(text, places, predict, values) or plain

        def compute(rows: slice) -> Tensor:
            with passes():
                return logits_of(values[rows])

        return self.batches.run(
            len(values), self.cost.bytes(len(text), 1), compute, self.cost.rows(len(text))
        )

    def _finite(self, parts: Iterator[tuple[slice, Tensor]]) -> Iterator[tuple[slice, Tensor]]:
        """Yield the parts unchanged; raise at the end if a logit was NaN or +inf (-inf, for an
        excluded token, is allowed).

        It waits for a GPU only at the end.
        """
        largest: list[Tensor] = []
        for rows, logits in parts:
            largest.append(logits.amax())
            yield rows, logits
        if largest and not bool(torch.stack(largest).isfinite().all()):
            raise self.not_finite()

    def not_finite(self) -> ModelError:
        """The error for logits that are not finite; a network with token dropout divides by the
        share of unmasked tokens.
        """
        if isinstance(self.network, FunctionNetwork):
            return ModelError(
                f"logits of {self.name} are not finite: return finite logits, or -inf for tokens"
                " that cannot be"
            )
        if getattr(self.network.config, "token_dropout", False) and self.dtype not in HALF_TYPES:
            return ModelError(
                f"logits of {self.name} are not finite: leave a token unmasked (token_dropout in"
                " its config.json)"
            )
        return super().not_finite()

    def _shared(
        self, text: Tensor, vary: Tensor, predict: int, values: Tensor
    ) -> Callable[[Tensor], Tensor] | None:
        """Logits at `predict` with what all rows share computed once; None if the architecture
        does not allow it.
        """
        encoder = self.encoder
        if encoder is None or encoder.unseen is not None or encoder.has_padding(text):
            return None
        logits_of = partial(shared_logits, self.head, Substitution(encoder, text, vary, predict))
        sample = torch.cat([values[:1], values[len(values) // 2 :][:1]])
        fast, slow = (
            partial(logits_of, sample),
            lambda head: plain_logits(head, text, vary, predict, sample),
        )
        return (
            logits_of
            if not len(values) or self._agreed_at("shared", len(text), fast, slow)
            else None
        )

    def _agreed_at(
        self, path: str, tokens: int, fast: Callable[[], Tensor], slow: Callable[[Any], Tensor]
    ) -> bool:
        """Whether a fast path gives the network's own logits for a first text of this length;
        if not, all are given up.
        """
        if (path, tokens) not in self._agreed:
            if not self._agree(fast(), slow):
                self.encoder = None
                return False
            self._agreed.add((path, tokens))
        return True

    def _agree(self, fast: Tensor, slow: Callable[[Any], Tensor]) -> bool:
        """Whether the fast path gives the logits `slow(head)` of the network's own forward pass."""

        def wide() -> Tensor:
            return slow(head_of(copy.deepcopy(self.network).float(), self.name))

        return agree(fast, slow(self.head), self.dtype, type(self.network).__name__, wide)


def refuse_tokenizer(tokenizer: Any, masked: bool = True) -> None:
    """Raise for what is not a tokenizer, or has no mask token."""
    if not all(
        hasattr(tokenizer, name)
        for name in ("mask_token_id", "all_special_ids", "get_vocab", "convert_ids_to_tokens")
    ):
        raise InputError(
            f"tokenizer {checks.shown(tokenizer)} is not one of transformers: give what"
            " from_pretrained returns"
        )
    if masked and tokenizer.mask_token_id is None:
        kind = type(tokenizer).__name__
        raise ModelError(
            f"tokenizer {kind} has no mask token: give that of a masked language model, or mask_id"
        )


def refuse_outside(ids: Tensor, positions: Tensor, input_size: int) -> None:
    """Raise for token ids and positions that are not there; those on a GPU are not looked at,
    since that would wait for it.
    """
    for name, what, rows, size in (
        ("ids", "token id", ids, input_size),
        ("positions", "position", positions, ids.shape[-1:].numel()),
    ):
        if (
            rows.dim() != 2
            or rows.is_floating_point()
            or rows.is_complex()
            or rows.dtype == torch.bool
        ):
            raise InputError(
                f"{name} {checks.shown(rows)} are not rows of whole numbers: give a tensor such as"
                " [[3, 4]]"
            )
        for value in rows.aminmax() if rows.device.type == "cpu" and rows.numel() else ():
            checks.whole(what, value, 0, size - 1)
    if len(ids) != len(positions):
        raise InputError(
            f"{len(ids)} texts and {len(positions)} rows of positions were given: give one row for"
            " each text"
        )
