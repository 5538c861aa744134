"""A causal language model as an independent judge of texts:

    score(x) = -1/n sum_t log p(x_t | x_<t)
            nats per token; the end token counts, where the judge has one; lower is better

It does not depend on the energy that was sampled: a chain can lower its own energy with texts
that nobody would write, and the judge shows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from unmask.common.errors import InputError
from unmask.models.checkpoint import load_causal
from unmask.runs.devices import resolve_device
from unmask.sampling.chains.chain_samples import ChainSamples

MOST_JUDGED = 512  # Texts of a run; of its starts as many
TEXTS_AT_ONCE = 64  # In a call of the network


class CausalJudge:
    """A causal model by name or folder; a text is scored between its start and end tokens,
    where it has them.

    before   token ids before every text
    after    token ids after it
    """

    def __init__(self, name: str, device: str = "auto") -> None:
        self.name = name
        network, tokenizer = load_causal(name)
        self.tokenizer: Any = tokenizer
        self.network: Any = network.to(resolve_device(device)).eval()
        start = self.tokenizer.bos_token_id
        end = self.tokenizer.eos_token_id
        first = end if start is None else start
        self.before: list[Any] = [] if first is None else [first]
        self.after: list[Any] = [] if end is None else [end]
        self._refuse_one_that_looks_ahead()

    @torch.no_grad()
    def _refuse_one_that_looks_ahead(self) -> None:
        """A masked model loads as a causal one, sees the token that it should predict, and
        finds every text likely.
        """
        texts = [[1, 2, 3, 4], [1, 2, 3, 5]]  # they differ in the last token only
        rows = torch.tensor(texts, device=self.network.device)
        logits = self.network(input_ids=rows).logits[:, :3].double()
        difference = float((logits[0] - logits[1]).abs().max())
        largest = float(logits.abs().max())
        if difference > 1e-5 * (1 + largest):  # more than rounding
            raise InputError(
                f"judge {self.name!r} looks ahead in the text: give a causal language model, such"
                " as GPT-2"
            )

    @torch.no_grad()
    def __call__(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Nats per token of each text; NaN for a text without a token to predict."""
        bare = [self.tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
        self._refuse_unknown_tokens(texts, bare)
        self._refuse_too_long(bare)
        rows = [[*self.before, *tokens, *self.after] for tokens in bare]
        nats = np.full(len(texts), np.nan)
        # Texts of one length go together, so that none is padded. The first token is not predicted.
        lengths = {len(row) for row in rows if len(row) > 1}
        for length in lengths:
            places = [place for place, row in enumerate(rows) if len(row) == length]
            for start in range(0, len(places), TEXTS_AT_ONCE):
                batch = places[start : start + TEXTS_AT_ONCE]
                nats[batch] = self._nats([rows[place] for place in batch])
        return nats

    def _nats(self, rows: Sequence[Sequence[int]]) -> NDArray[np.float64]:
        """Nats per token of rows of one length."""
        tokens = torch.tensor(rows, device=self.network.device)
        logits = self.network(input_ids=tokens).logits[:, :-1].float()
        following = tokens[:, 1:, None]
        logit_of_following = logits.gather(2, following).squeeze(2)
        log_probs = logit_of_following.double() - logits.logsumexp(-1).double()
        nats: NDArray[np.float64] = -log_probs.mean(1).cpu().numpy()
        return nats

    def _refuse_unknown_tokens(self, texts: Sequence[str], bare: Sequence[Sequence[int]]) -> None:
        """Refuse texts of which the judge does not know half of the tokens, or reads nothing."""
        if not any(text.strip() for text in texts):
            return
        ids = [token for tokens in bare for token in tokens]
        unknown = ids.count(self.tokenizer.unk_token_id)
        if 2 * unknown < len(ids):
            return
        what = "they have no token"
        if ids:
            what = f"{unknown:,} of {len(ids):,} tokens are unknown"
        raise InputError(
            f"judge {self.name!r} cannot read the texts ({what}): give a causal model of their"
            " kind, with its own tokenizer"
        )

    def _refuse_too_long(self, bare: Sequence[Sequence[int]]) -> None:
        positions = getattr(self.network.config, "max_position_embeddings", None)
        if positions is None:  # no limit
            return
        most = positions - len(self.before) - len(self.after)
        longest = max((len(tokens) for tokens in bare), default=0)
        if longest > most:
            raise InputError(
                f"judge {self.name!r} takes texts of at most {most} tokens, and one has {longest}:"
                " give a causal model that takes longer ones"
            )


def judge_run(judge: CausalJudge, run: ChainSamples) -> dict[str, float | str | None]:
    """Mean scores of the last texts of the chains and of the texts that they started from; None
    where there is nothing to score.
    """
    starts = [row["text"] for row in run.starts if "text" in row]
    return {
        "name": judge.name,
        "samples": mean_score(judge, run.samples.last_of_each_chain().text.tolist()),
        "starts": mean_score(judge, starts[:MOST_JUDGED]),
    }


def mean_score(judge: CausalJudge, texts: Sequence[str]) -> float | None:
    """The mean score of texts, at most MOST_JUDGED of them, evenly thinned; None where there is
    nothing to score.
    """
    every = max(1, -(-len(texts) // MOST_JUDGED))
    scores = judge(texts[::every])
    known = scores[~np.isnan(scores)]
    return float(known.mean()) if len(known) else None
