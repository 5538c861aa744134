"""A causal model of pairs, and beam search with it.

The model reads the source once and then goes token by token, with a cache of keys and values:

    p(y_1 ... y_n, end | s) = prod_t p(y_t | y_<t, s)
            y_t is at position W + t - 1, which sees the whole source, and y up to y_t

Its network is our own BERT. Training computes all these terms in one pass over a packed row; here
each token is a pass. Beam search:

    1. Keep the b likeliest beginnings of each source's translation. A finished one stays as it is.
    2. Stop when all are finished, or as long as the model allows.
    3. Take the one with the highest log p / tokens. The end token counts as a token.

A beam of 1 is greedy decoding.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.common.errors import InputError
from unmask.models.bert_checkpoint import read_own_bert
from unmask.models.checkpoint import resolve_dtype
from unmask.models.checkpoint_files import Source as ModelSource
from unmask.models.encoder.bert import BertMaskedLM, KeyCache
from unmask.models.pair_layout import PairLayout, read_layout
from unmask.runs.devices import resolve_device
from unmask.runs.fingerprint import fingerprint
from unmask.studies.translation.one_translation import OneTranslation
from unmask.studies.translation.recipe import PairTranslator
from unmask.studies.translation.spelling import Spelling


class CausalPairs(PairTranslator):
    """Next-token log-probabilities of translations; special tokens except the end token are
    excluded.
    """

    def __init__(
        self,
        network: BertMaskedLM,
        layout: PairLayout,
        special: Int[Tensor, " s"],
        spelling: Any = None,
        name: str = "",
    ) -> None:
        """`spelling` is needed for texts alone, not for tokens."""
        self.network: BertMaskedLM = network.eval()
        self.layout = layout
        self.spelling = spelling
        self.name = name
        network.bert.unseen = layout.pad  # no position attends to padding
        self.device: torch.device = next(network.parameters()).device
        excluded = torch.zeros(network.config.vocab_size, dtype=torch.bool)
        excluded[special] = True
        excluded[layout.end] = False
        self.excluded: Tensor = excluded.to(self.device)

    @classmethod
    def load(cls, folder: Path, device: str, dtype: str) -> CausalPairs:
        """Read a folder that `unmask.train` wrote for pairs, with the objective causal."""
        spelling = Spelling(folder)
        layout, objective, _ = read_layout(folder, spelling.core.get_vocab())
        if objective != "causal":
            raise InputError(
                f"{str(folder)!r} is a masked model", argument="model", use="give a causal one"
            )
        network = read_own_bert(ModelSource(str(folder)), resolve_dtype(dtype), decoder=True)
        if network is None:
            raise InputError(
                f"{str(folder)!r} has weights that are not those of its config.json",
                argument="model",
                use="train the model again",
            )
        added_tokens = spelling.core.get_added_tokens_decoder()
        special = [i for i, token in added_tokens.items() if token.special]
        return cls(
            network=network.to(resolve_device(device)),
            layout=layout,
            special=torch.tensor(special),
            spelling=spelling,
            name=str(folder),
        )

    @property
    def fingerprint(self) -> str:
        """A hash of the weights."""
        return fingerprint(self.network.state_dict())

    @torch.no_grad()
    def read(self, rooms: Int[Tensor, "n W"]) -> tuple[KeyCache, Float[Tensor, "n V"]]:
        """Read sources in their rooms; log p(y_1 | s)."""
        cache = KeyCache()
        states = self.network.bert(rooms, cache=cache)
        last = (rooms != self.layout.pad).sum(1) - 1  # the end token of the source
        of_last = states[torch.arange(len(rooms), device=self.device), last]
        return cache, self._log_probs(of_last)

    @torch.no_grad()
    def step(self, cache: KeyCache, tokens: Int[Tensor, " n"], place: int) -> Float[Tensor, "n V"]:
        """Read one more token of each translation, its `place`-th from 0; log-probabilities of the
        one after it.
        """
        position = self.layout.source_length + place
        states = self.network.bert(tokens.unsqueeze(1), position, cache)
        return self._log_probs(states[:, 0])

    def _log_probs(self, states: Float[Tensor, "n d"]) -> Float[Tensor, "n V"]:
        log_probs = self.network.head(states).float().log_softmax(-1)
        return log_probs.masked_fill(self.excluded, -torch.inf)


def beam_search(
    model: CausalPairs, sources: Sequence[Sequence[int]], width: int = 1
) -> list[OneTranslation]:
    """One translation per source, of at most as many tokens as the model takes; all sources are
    searched together.
    """
    n = len(sources)
    end = model.layout.end
    longest = model.layout.longest_target
    device = model.device
    rooms = [model.layout.room(source) for source in sources]
    cache, log_probs = model.read(torch.tensor(rooms, device=device))
    scores, tokens = _likeliest_first_tokens(log_probs, width)
    places = torch.arange(n, device=device)
    cache.take(places.repeat_interleave(width))  # a row for each beginning
    first_rows = places.unsqueeze(1) * width  # of each source in the cache
    texts = tokens.unsqueeze(-1)  # (source, beginning, token)
    lengths = torch.ones_like(tokens)  # tokens of each beginning, its end token included
    finished = (tokens == end) | scores.isinf()  # what is impossible need not go on
    for place in range(longest):
        if bool(finished.all()):
            break
        last_tokens = texts[..., -1].flatten()
        following = model.step(cache, last_tokens, place).view(n, width, -1)
        if place + 1 == longest:
            following = _only(following, end)
        stays = _only(torch.zeros_like(following), end)  # what is finished ends with certainty
        following = torch.where(finished.unsqueeze(-1), stays, following)
        vocabulary = following.shape[-1]
        longer_scores = (scores.unsqueeze(-1) + following).flatten(1)
        scores, cells = longer_scores.topk(width)
        before = cells // vocabulary  # the beginning that each of the likeliest goes on from
        tokens = cells % vocabulary
        texts = torch.cat([_of_beginnings(texts, before), tokens.unsqueeze(-1)], -1)
        was_finished = finished.gather(1, before)
        lengths = lengths.gather(1, before) + (~was_finished).long()
        finished = was_finished | (tokens == end) | scores.isinf()
        cache.take((first_rows + before).flatten())
    best = (scores / lengths).argmax(1, keepdim=True)
    best_texts = _of_beginnings(texts, best)[:, 0].tolist()
    best_scores = scores.gather(1, best)[:, 0].tolist()
    passes = texts.shape[-1] * width  # as if the source, too, were read for each beginning
    translations = []
    for text, log_prob in zip(best_texts, best_scores, strict=True):
        before_end = text[: text.index(end)] if end in text else text
        translation = OneTranslation(
            tokens=tuple(before_end), energy=None, log_prob=log_prob, passes=passes
        )
        translations.append(translation)
    return translations


def _likeliest_first_tokens(
    log_probs: Float[Tensor, "n V"], width: int
) -> tuple[Float[Tensor, "n b"], Int[Tensor, "n b"]]:
    """The log-probabilities of the b likeliest first tokens, and the tokens.

    A vocabulary may have fewer than b: the rest are impossible, and any token stands for them.
    """
    n, vocabulary = log_probs.shape
    missing = max(0, width - vocabulary)
    impossible = torch.full((n, missing), -torch.inf, device=log_probs.device)
    scores, tokens = torch.cat([log_probs, impossible], 1).topk(width)
    return scores, tokens.clamp(max=vocabulary - 1)


def _of_beginnings(
    texts: Int[Tensor, "n b t"], beginnings: Int[Tensor, "n c"]
) -> Int[Tensor, "n c t"]:
    """The texts of some beginnings of each source."""
    tokens = texts.shape[-1]
    index = beginnings.unsqueeze(-1).expand(-1, -1, tokens)  # the same beginning for each token
    return texts.gather(1, index)


def _only(log_probs: Float[Tensor, "n b V"], token: int) -> Float[Tensor, "n b V"]:
    """The same with every other token ruled out."""
    only = torch.full_like(log_probs, -torch.inf)
    only[..., token] = log_probs[..., token]
    return only
