"""Passes that do not depend on earlier ones, for the types of transformers that keep a state.

BigBird       A short text switches it to full attention, and it stays there for all later texts.
Reformer      Its first text sets the number of hash buckets for all later texts, if config.json
              does not. Each hashing seeds torch's generators, those of the whole process.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

DEFAULT_HASH_SEED = 0  # Reformer's seed where config.json has no hash_seed


class FreshPass:
    """Gives a network the state that it would have if the next pass were its first."""

    def __init__(self, network: nn.Module) -> None:
        config: Any = network.config
        kind = getattr(config, "model_type", None)
        self.base_model: Any = network.base_model
        self.config = config
        self.device: torch.device = next(network.parameters()).device
        self.is_sparse: bool = kind == "big_bird" and config.attention_type == "block_sparse"
        self.hashing: list[Any] = []  # Reformer's layers that hash
        if kind == "reformer":
            self.hashing = [part for part in network.modules() if hasattr(part, "hash_seed")]
        for layer in self.hashing:
            if layer.hash_seed is None:  # each pass would draw other hashes
                layer.hash_seed = DEFAULT_HASH_SEED
        # Asked here, since the first pass writes its number into the configuration.
        self.chooses_buckets: bool = bool(self.hashing) and config.num_buckets is None

    @contextmanager
    def __call__(self, tokens: int) -> Iterator[None]:
        """Within this context the network passes texts of `tokens` tokens as if they were its
        first; torch's generators are as before afterwards.
        """
        if self.is_sparse:
            self.base_model.set_attention_type(self._attention_type(tokens))
        if self.chooses_buckets:
            for layer in self.hashing:
                layer.num_buckets = None  # the pass chooses it by the length of its texts
        gpus = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(gpus, enabled=bool(self.hashing)):
            yield

    def _attention_type(self, tokens: int) -> str:
        """BigBird's own choice for its first text."""
        longest_full = (5 + 2 * self.config.num_random_blocks) * self.config.block_size
        if tokens <= longest_full:
            return "original_full"
        return "block_sparse"
