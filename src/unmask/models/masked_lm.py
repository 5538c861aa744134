"""A Hugging Face masked language model as a conditional model: logits at chosen positions.

    q_t(x | text) = softmax f_t(. | text)[x]

f_t(. | text)  logits at position t of a text; usually a mask hides the token at t
q_t(x | text)  probability that the token at t is x

All of `unmask` reads the model in two ways:

logits         any texts, any positions
substitutions  one text in which a few tokens vary, one position: one side of a pair table
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
from unmask.common.border.calls import checked
from unmask.common.cloze import Cloze
from unmask.common.errors import InputError, ModelError
from unmask.models.batching import RowBatches, RowCost, default_budget, on_device, passes
from unmask.models.conditional_model import ConditionalModel
from unmask.models.encoder.agreement import agree
from unmask.models.encoder.architectures import find_encoder
from unmask.models.encoder.encoder import Encoder
from unmask.models.encoder.linear_maps import HALF_TYPES
from unmask.models.encoder.substitution import Substitution, plain_logits, shared_logits
from unmask.models.function_network import FunctionNetwork
from unmask.models.heads import Head, head_of
from unmask.models.input_limits import input_size, longest_text
from unmask.models.load import load_uncached
from unmask.models.model_types import caution_about, refuse_type
from unmask.models.probes import refuse_causal
from unmask.models.text.blanks import cloze_of
from unmask.models.text.mask_token import with_mask
from unmask.models.text.text_tokenizer import TextTokenizer, refuse_too_long
from unmask.models.text.tokenizer_checks import refuse_foreign_tokenizer
from unmask.runs.devices import resolve_device
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
        needed = ("config", "base_model", "get_input_embeddings")
        if not all(hasattr(network, attribute) for attribute in needed):
            raise InputError(
                f"{checks.shown(network)} is not one of transformers",
                argument="network",
                use="give what from_pretrained returns",
            )
        self._wrap(network, tokenizer, name)

    @classmethod
    def of_network(cls, network: nn.Module, tokenizer: Any, name: str) -> MaskedLM:
        """What the constructor makes, for a network that our own code built."""
        model = cls.__new__(cls)
        model._wrap(network, tokenizer, name)
        return model

    def _wrap(self, network: nn.Module, tokenizer: Any, name: str) -> None:
        """Set all attributes."""
        refuse_tokenizer(tokenizer)
        refuse_type(network.config, name)
        self.name = name
        self.network: nn.Module = network.eval()
        self.tokenizer = tokenizer
        first_parameter = next(network.parameters())
        self.device: torch.device = first_parameter.device
        self.dtype: torch.dtype = first_parameter.dtype
        self.max_length: int | None = longest_text(network, tokenizer)
        self.input_size = input_size(network)
        refuse_foreign_tokenizer(tokenizer, self.input_size, name)
        self.head: Head = head_of(network, name, tokenizer.mask_token_id)
        self.vocab_size: int = self.head.vocab_size
        self.caution: str | None = caution_about(network.config, name, self.dtype)
        # from texts to ids, and back
        self.words: TextTokenizer = TextTokenizer(tokenizer, self.vocab_size)
        self.mask_id: int = self.words.mask_id
        self.special_ids: tuple[int, ...] = self.words.special_ids
        if not self.regular_ids:
            raise ModelError(
                f"the tokenizer of {name} has only special tokens: use the one that the model was"
                " trained with"
            )
        # cuts rows by their memory
        self.batches: RowBatches = RowBatches(default_budget(self.device))
        # A function gives logits at all tokens of a text, also if one position is wanted.
        everywhere = isinstance(network, FunctionNetwork)
        self.cost: RowCost = RowCost.of(network, self.vocab_size, everywhere=everywhere)
        # Our faster passes of this network; None if there are none. It becomes None as soon as
        # one of them differs from the network's own logits. Another thread may find this out at
        # any time.
        self.encoder: Encoder | None = None
        if self.head.position_by_position:
            self.encoder = find_encoder(network)
        self._agreed: set[tuple[str, int]] = set()  # names of fast paths, and lengths of texts

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
        resolved = None if device is None else resolve_device(device)
        network = FunctionNetwork(function, tokenizer, resolved)
        model = cls.of_network(network, tokenizer, name)
        refuse_causal(
            network,
            mask_id=model.mask_id,
            vocab_size=model.vocab_size,
            device=model.device,
            name=name,
        )
        return model

    def __repr__(self) -> str:
        dtype = str(self.dtype).removeprefix("torch.")
        return f"MaskedLM({self.name!r}, {self.vocab_size:,} tokens, {dtype} on {self.device})"

    @cached_property
    def regular_ids(self) -> tuple[int, ...]:
        """The token ids that a text can have: all except `special_ids`."""
        special = set(self.special_ids)
        return tuple(i for i in range(self.vocab_size) if i not in special)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the weights and the tokenizer.

        That of a function also covers its mask token and its logits of a few texts, since it may
        have no weights.
        """
        weights = self.network.state_dict()
        tokenizer = self.words.serialised()
        if isinstance(self.network, FunctionNetwork):
            probed = {"probed": self.network.probed(self.mask_id)}
            return fingerprint(weights | probed, tokenizer, str(self.mask_id))
        return fingerprint(weights, tokenizer)

    @checked
    def cloze(
        self,
        text: str,
        positions: str | Sequence[int] | None = None,
        targets: Sequence[str] | None = None,
    ) -> Cloze:
        """The text as ids with its blanks: those written in it, or the tokens at `positions`,
        counted from 1. See `blanks.cloze_of`.
        """
        return cloze_of(
            self.words, text, positions=positions, targets=targets, max_length=self.max_length
        )

    @checked
    def token(self, token_id: int) -> str:
        """Readable text of one token. A space before a word shows as a space; "##" stays "##"."""
        checks.whole("token id", token_id, 0, checks.MOST_TOKENS)
        return self.words.token(token_id)

    def token_text(self, token_id: int) -> str:
        """`token` of an id that a room made."""
        return self.words.token(token_id)

    def around(self) -> tuple[list[int], list[int]]:
        """The special ids that the tokenizer puts before and after a text."""
        return self.words.around()

    @checked
    def decode(self, ids: Sequence[int] | Tensor) -> list[str]:
        """Readable text of each token."""
        return self.words.tokens(_token_ids(ids))

    @checked
    def text(self, ids: Sequence[int] | Tensor) -> str:
        """The sentence that `ids` spell, without start, end and padding tokens; a blank shows
        as [MASK].
        """
        return self.words.text(_token_ids(ids))

    @checked
    def logits(
        self, ids: Int[Tensor, "n T"], positions: Int[Tensor, "n p"]
    ) -> Float[Tensor, "n p V"]:
        """Logits at `positions` of each row of `ids`; up to rounding they do not depend on the
        batch size.
        """
        refuse_outside(ids, positions, self.input_size)
        return self.logits_at(ids, positions)

    @passes()
    def logits_at(
        self, ids: Int[Tensor, "n T"], positions: Int[Tensor, "n p"]
    ) -> Float[Tensor, "n p V"]:
        """`logits` of ids that a room made: only the length of the texts is checked."""
        n, p = positions.shape
        tokens = ids.shape[1]
        refuse_too_long(tokens, self.max_length)
        if n == 0:
            return torch.empty((0, p, self.vocab_size), dtype=torch.float32, device=self.device)
        # Ids may come in eight bits, and as indices torch would read these as a mask.
        ids = ids.to(self.device, torch.long)
        positions = positions.to(self.device, torch.long)
        encoder = None
        if p == 1:
            encoder = self._for_one_position(ids, positions)
        forward: Callable[[Tensor, Tensor], Tensor] = self.head
        if encoder is not None:
            forward = partial(self._at_one, encoder)
        batches = self.batches.run(
            total=n,
            bytes_per_row=self.cost.bytes(tokens, p),
            compute=lambda rows: forward(ids[rows], positions[rows]),
            most=self.rows_at_once(tokens, p),
        )
        # On a GPU the check would wait for the logits of each call; callers check at their end.
        if self.device.type != "cuda":
            batches = self._finite(batches)
        return _joined(batches, n)

    @passes()
    def offers_states(self, ids: Int[Tensor, "n T"]) -> bool:
        """Whether `states` and `logits_of` work for texts like these: a known architecture that
        gave the right answer here.
        """
        if self.cost.width == self.vocab_size:
            return False  # callers keep states or logits, and tell them apart by their width
        first_text = ids[:1].to(self.device)
        ends = torch.tensor([[0, ids.shape[1] - 1]], device=self.device)
        first_end = ends[:, :1]
        if self._for_one_position(first_text, first_end) is None:
            return False
        # That was checked at one position of a text. At several the last layer computes otherwise.
        states = self.states(first_text, ends)[0]
        return self._agree(self.logits_of(states), lambda head: head(first_text, ends)[0])

    @passes()
    def states(
        self, ids: Int[Tensor, "n T"], positions: Int[Tensor, "n p"]
    ) -> Float[Tensor, "n p d"]:
        """Last hidden states at `positions`, in one call and without waiting for a GPU.

        Only for texts like those for which `offers_states` is true.
        """
        assert self.encoder
        return self.encoder.hidden_at(ids, positions)

    @passes()
    def logits_of(self, states: Float[Tensor, "n d"]) -> Float[Tensor, "n V"]:
        """Logits from last hidden states."""
        return self.head.of_hidden(states.unsqueeze(1))[:, 0]

    def multiplications(self, tokens: int) -> int:
        """About how many numbers a pass of a text of `tokens` tokens multiplies.

        These are the encoder's matrices at every token, and the output layer at one.
        """
        lookup_tables = {
            id(part.weight) for part in self.network.modules() if isinstance(part, nn.Embedding)
        }
        per_token = 0
        for weight in self.head.base_model.parameters():
            is_matrix = weight.dim() > 1 and id(weight) not in lookup_tables
            if is_matrix:
                per_token += weight.numel()
        return tokens * per_token + self.cost.width * self.vocab_size

    def rows_at_once(self, tokens: int, predicted: int) -> int:
        """The most rows that one call of the network takes; a row's last bits depend on how
        many there are.
        """
        return min(self.cost.rows(tokens), self.batches.rows(self.cost.bytes(tokens, predicted)))

    def substitutions(
        self, ids: Sequence[int], vary: Sequence[int], values: Int[Tensor, "n v"], predict: int
    ) -> Iterator[tuple[slice, Float[Tensor, "b V"]]]:
        """Logits at `predict` of `ids` with row i of `values` at the positions `vary`, in
        batches and in order; maybe NaN.
        """
        refuse_too_long(len(ids), self.max_length)
        text = on_device(ids, self.device, torch.long)
        varied = on_device(vary, self.device, torch.long)
        values = values.to(self.device)
        with passes():
            from_values = self._shared(text, varied, predict, values)
        if from_values is None:  # the network's own forward pass, with only `values` left to give
            from_values = partial(plain_logits, self.head, text=text, vary=varied, predict=predict)

        def compute(rows: slice) -> Tensor:
            with passes():  # the caller's own code runs between the batches, as it is set there
                return from_values(values=values[rows])

        return self.batches.run(
            total=len(values),
            bytes_per_row=self.cost.bytes(len(text), 1),
            compute=compute,
            most=self.cost.rows(len(text)),
        )

    def _finite(self, batches: Iterator[tuple[slice, Tensor]]) -> Iterator[tuple[slice, Tensor]]:
        """Yield the batches unchanged, and raise ModelError after the last if a logit was NaN or
        +inf; -inf, for an excluded token, is allowed.
        """
        largest: list[Tensor] = []
        for rows, logits in batches:
            largest.append(logits.amax())
            yield rows, logits
        if largest and not bool(torch.stack(largest).isfinite().all()):
            raise self.not_finite()

    def not_finite(self) -> ModelError:
        """The error for logits that are not finite, with what the user can do."""
        if isinstance(self.network, FunctionNetwork):
            return ModelError(
                f"logits of {self.name} are not finite: return finite logits, or -inf for tokens"
                " that cannot be"
            )
        has_token_dropout = getattr(self.network.config, "token_dropout", False)
        if has_token_dropout and self.dtype not in HALF_TYPES:
            # Such a network divides by the share of unmasked tokens.
            return ModelError(
                f"logits of {self.name} are not finite: leave a token unmasked (token_dropout in"
                " its config.json)"
            )
        return super().not_finite()

    def _at_one(
        self, encoder: Encoder, ids: Int[Tensor, "n T"], positions: Int[Tensor, "n 1"]
    ) -> Float[Tensor, "n 1 V"]:
        """Logits by `encoder`, whose last layer runs at one position of each text only."""
        return self.head.of_hidden(encoder.hidden_at(ids, positions))

    def _for_one_position(
        self, ids: Int[Tensor, "n T"], positions: Int[Tensor, "n 1"]
    ) -> Encoder | None:
        """The encoder, if `_at_one` is right for texts of this length; n is 1 or more."""
        encoder = self.encoder
        if encoder is None or encoder.has_padding(ids):
            return None
        text = ids[:1]
        position = positions[:1]
        is_right = self._agreed_at(
            "one position",
            tokens=ids.shape[1],
            fast=partial(self._at_one, encoder, text, position),
            slow=lambda head: head(text, position),
        )
        return encoder if is_right else None

    def _shared(
        self,
        text: Int[Tensor, " T"],
        vary: Int[Tensor, " v"],
        predict: int,
        values: Int[Tensor, "n v"],
    ) -> Callable[..., Tensor] | None:
        """A function from rows of `values` to logits at `predict`, which computes once what all
        rows share; None if it is not right for texts of this length.
        """
        encoder = self.encoder
        if encoder is None:
            return None
        # In `Substitution` every position attends to every token.
        if encoder.unseen is not None or encoder.has_padding(text):
            return None
        shared = Substitution(encoder, text, vary, predict)
        from_values = partial(shared_logits, self.head, shared)
        if len(values) == 0:
            return from_values
        # The check takes the first row and the middle one: as slices, since a list of two indices
        # would wait for a GPU.
        middle = len(values) // 2
        two_rows = torch.cat([values[:1], values[middle : middle + 1]])
        is_right = self._agreed_at(
            "shared",
            tokens=len(text),
            fast=partial(from_values, values=two_rows),
            slow=lambda head: plain_logits(
                head, text=text, vary=vary, predict=predict, values=two_rows
            ),
        )
        return from_values if is_right else None

    def _agreed_at(
        self, path: str, tokens: int, fast: Callable[[], Tensor], slow: Callable[[Head], Tensor]
    ) -> bool:
        """Whether a fast path gave the network's own logits for a first text of this length.

        If it does not, all fast paths are given up for good.

        path   its name
        fast   its logits of that text
        slow   from a head to the network's own logits of that text; `_agree` may call it twice
        """
        if (path, tokens) in self._agreed:
            return True
        if not self._agree(fast(), slow):
            self.encoder = None
            return False
        self._agreed.add((path, tokens))
        return True

    def _agree(self, fast: Tensor, slow: Callable[[Head], Tensor]) -> bool:
        """Whether logits are those of `slow(head)`, the network's own forward pass."""

        def in_float32() -> Tensor:  # called in half precision only, if the two differ much
            network = copy.deepcopy(self.network).float()
            return slow(head_of(network, self.name, self.mask_id))

        return agree(
            fast,
            slow(self.head),
            dtype=self.dtype,
            name=type(self.network).__name__,
            wide=in_float32,
        )


def _token_ids(values: object) -> list[int]:
    """The token ids that a user gives, as a list of ints."""
    ids = checks.wholes("ids", values)
    for i in ids:
        checks.whole("token id", i, 0, checks.MOST_TOKENS)
    return ids


def _joined(batches: Iterator[tuple[slice, Tensor]], n: int) -> Tensor:
    """The results of all batches, in a tensor of `n` rows."""
    joined: Tensor | None = None
    for rows, part in batches:
        if len(part) == n:  # the only batch: it needs no copy
            joined = part
            continue
        if joined is None:
            joined = part.new_empty((n, *part.shape[1:]))
        joined[rows] = part
    assert joined is not None, "there is a batch if there are rows"
    return joined


def refuse_tokenizer(tokenizer: Any, masked: bool = True) -> None:
    """Raise for what is no tokenizer of transformers.

    masked   whether a tokenizer without a mask token is refused, too
    """
    needed = ("mask_token_id", "all_special_ids", "get_vocab", "convert_ids_to_tokens")
    if not all(hasattr(tokenizer, attribute) for attribute in needed):
        raise InputError(
            f"{checks.shown(tokenizer)} is not one of transformers",
            argument="tokenizer",
            use="give what from_pretrained returns",
        )
    if masked and tokenizer.mask_token_id is None:
        kind = type(tokenizer).__name__
        raise ModelError(
            f"tokenizer {kind} has no mask token: give that of a masked language model, or mask_id"
        )


def refuse_outside(ids: Tensor, positions: Tensor, input_size: int) -> None:
    """Raise InputError for token ids that the model does not know, and for positions outside the
    texts.
    """
    _refuse_others("ids", "token id", ids, input_size)
    _refuse_others("positions", "position", positions, ids.shape[1])
    if len(ids) != len(positions):
        raise InputError(
            f"{len(ids)} texts and {len(positions)} rows of positions were given: give one row for"
            " each text"
        )


def _refuse_others(name: str, what: str, rows: Tensor, count: int) -> None:
    """Raise InputError unless `rows` are rows of whole numbers from 0 to `count` - 1."""
    is_whole = not (rows.is_floating_point() or rows.is_complex() or rows.dtype == torch.bool)
    if rows.dim() != 2 or not is_whole:
        raise InputError(
            f"{name} {checks.shown(rows)} are not rows of whole numbers: give a tensor such as"
            " [[3, 4]]"
        )
    if rows.device.type != "cpu" or rows.numel() == 0:
        return  # reading them from a GPU would wait for it
    least, largest = rows.aminmax()
    checks.whole(what, least, 0, count - 1)
    checks.whole(what, largest, 0, count - 1)
