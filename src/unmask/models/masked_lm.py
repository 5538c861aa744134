"""A Hugging Face masked language model as a conditional model: logits f_t(. | text) at the positions asked for.

q_t(x | rest) = softmax f_t(. | rest)[x]. All of `unmask` reads the model through `logits` (any rows, any positions) and
`substitutions` (one text, a few tokens vary, one position predicted: V rows of a pair table).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from unmask.cloze import Cloze
from unmask.models.batching import RowBatches, default_budget
from unmask.models.bundled import english_model_path
from unmask.models.head import PositionedHead
from unmask.models.loading import load_checkpoint, resolve_device, resolve_dtype
from unmask.models.tokenizing import TextTokenizer


class MaskedLM:
    """A masked language model and its tokenizer; satisfies `ConditionalModel`."""

    def __init__(self, network: nn.Module, tokenizer: Any, memory_budget: int | None = None) -> None:
        self.network = network.eval()
        self.tokenizer = tokenizer
        self.words = TextTokenizer(tokenizer)
        self.device = next(network.parameters()).device
        self.dtype = next(network.parameters()).dtype
        self.head = PositionedHead(network)
        self.batches = RowBatches(memory_budget or default_budget(self.device))
        self.mask_id = self.words.mask_id
        with torch.no_grad():
            probe = torch.tensor([[self.mask_id]], device=self.device)
            self.vocab_size = int(self.head(probe, torch.zeros_like(probe)).shape[-1])
        self.special_ids = self.words.special_ids

    @classmethod
    def load(
        cls,
        name_or_path: str | Path | None = None,
        device: str | torch.device = "auto",
        dtype: str | torch.dtype = "auto",
        memory_budget: int | None = None,
    ) -> MaskedLM:
        """Load a checkpoint from a folder, or from the hub by name; with no name, the bundled English model."""
        where = english_model_path() if name_or_path is None else name_or_path
        network, tokenizer = load_checkpoint(where, resolve_device(device), resolve_dtype(dtype))
        return cls(network, tokenizer, memory_budget)

    @property
    def regular_ids(self) -> tuple[int, ...]:
        """The token ids that can stand in a text: all but the special ones."""
        special = set(self.special_ids)
        return tuple(i for i in range(self.vocab_size) if i not in special)

    def cloze(self, text: str, positions: Sequence[int] | None = None, targets: Sequence[str] | None = None) -> Cloze:
        """The text's ids and its blanks."""
        ids = self.words.encode(text)
        if positions is None:
            block = [t for t, token in enumerate(ids) if token == self.mask_id]
            return Cloze(tuple(ids), tuple(block))
        gold = tuple(ids[p] for p in positions)
        for p in positions:
            ids[p] = self.mask_id
        return Cloze(tuple(ids), tuple(positions), gold)

    def token(self, token_id: int) -> str:
        """Readable text of one token."""
        return self.words.token(token_id)

    def decode(self, ids: Sequence[int]) -> list[str]:
        """Readable text of each token."""
        return [self.words.token(i) for i in ids]

    def text(self, ids: Sequence[int]) -> str:
        """The sentence that `ids` spell."""
        return self.words.text(ids)

    @torch.no_grad()
    def logits(self, ids: Int[Tensor, "n T"], positions: Int[Tensor, "n p"]) -> Float[Tensor, "n p V"]:
        """Logits at `positions` of each row of `ids`; the same numbers whatever the batch size."""
        ids, positions = ids.to(self.device), positions.to(self.device)
        parts = self.batches.run(
            len(ids), self._row_bytes(ids.shape[1], positions.shape[1]), lambda rows: self.head(ids[rows], positions[rows])
        )
        return torch.cat([logits for _, logits in parts])

    def substitutions(
        self, ids: Sequence[int], vary: Sequence[int], values: Int[Tensor, "n v"], predict: int
    ) -> Iterator[tuple[slice, Float[Tensor, "b V"]]]:
        """Logits at `predict` of `ids` with row i of `values` at the positions `vary`, in batches and in order."""
        values = values.to(self.device)
        text = torch.tensor(list(ids), device=self.device)

        def compute(rows: slice) -> Tensor:
            with torch.no_grad():
                part = values[rows]
                filled = text.repeat(len(part), 1)
                filled[:, list(vary)] = part
                return self.head(filled, torch.full((len(part), 1), predict, device=self.device))[:, 0]

        return self.batches.run(len(values), self._row_bytes(len(text), 1), compute)

    def _row_bytes(self, tokens: int, predicted: int) -> int:
        config: Any = self.network.config
        width = config.hidden_size
        inner = getattr(config, "intermediate_size", None) or 4 * width
        heads = config.num_attention_heads
        numbers = tokens * (8 * width + 2 * inner + 2 * heads * tokens) + predicted * (4 * width + 2 * self.vocab_size)
        return numbers * self.dtype.itemsize
