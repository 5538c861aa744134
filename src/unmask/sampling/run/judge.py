"""A causal language model as an independent judge of texts.

    score(x) = -1/n sum_t log p(x_t | x_<t)       nats per token; the end token counts, where the judge has one; lower is better

The judge does not depend on the energy that was sampled: a chain can lower its own energy with texts that nobody would write,
and the judge shows it.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from math import log
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from unmask.errors import InputError, UnmaskWarning
from unmask.models.loading import load_causal, resolve_device

if TYPE_CHECKING:
    from unmask.sampling.run.result import SampleRun

MOST_TEXTS = 512
AT_ONCE = 64


class CausalJudge:
    """A causal model by name or folder; a text is scored between its start and end tokens, where it has them."""

    def __init__(self, name: str, device: str = "auto") -> None:
        self.name = name
        network, self.words = load_causal(name)
        self.network = network.to(resolve_device(device)).eval()
        start, end = self.words.bos_token_id, self.words.eos_token_id
        self.before = [i for i in (end if start is None else start,) if i is not None]
        self.after = [] if end is None else [end]
        self._refuse_one_that_looks_ahead()

    @torch.no_grad()
    def _refuse_one_that_looks_ahead(self) -> None:
        """A masked model loads as a causal one, sees the token that it should predict, and finds every text likely."""
        rows = torch.tensor([[1, 2, 3, 4], [1, 2, 3, 5]], device=self.network.device)
        first = self.network(input_ids=rows).logits[:, :3].double()
        if float((first[0] - first[1]).abs().max()) > 1e-5 * (1 + float(first.abs().max())):
            raise InputError(f"judge {self.name!r} looks ahead in the text: give a causal language model, such as GPT-2")

    @torch.no_grad()
    def __call__(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Nats per token of each text; NaN for a text without a token to predict. Texts of one length go together."""
        nats = np.full(len(texts), np.nan)
        bare = [self.words(text, add_special_tokens=False)["input_ids"] for text in texts]
        ids = [i for tokens in bare for i in tokens]
        if any(text.strip() for text in texts) and 2 * (unknown := ids.count(self.words.unk_token_id)) >= len(ids):
            what = f"{unknown:,} of {len(ids):,} tokens are unknown" if ids else "they have no token"
            raise InputError(
                f"judge {self.name!r} cannot read the texts ({what}): give a causal model of their kind, with its own tokenizer"
            )
        longest, positions = max(map(len, bare), default=0), getattr(self.network.config, "max_position_embeddings", None)
        if positions is not None and longest > (most := positions - len(self.before) - len(self.after)):
            raise InputError(
                f"judge {self.name!r} takes texts of at most {most} tokens, and one has {longest}: give a causal model that "
                "takes longer ones"
            )
        rows = [[*self.before, *tokens, *self.after] for tokens in bare]
        for length in {len(row) for row in rows if len(row) > 1}:
            places = [place for place, row in enumerate(rows) if len(row) == length]
            for start in range(0, len(places), AT_ONCE):
                some = places[start : start + AT_ONCE]
                tokens = torch.tensor([rows[place] for place in some], device=self.network.device)
                logits = self.network(input_ids=tokens).logits[:, :-1].float()
                log_probs = logits.gather(2, tokens[:, 1:, None]).squeeze(2).double() - logits.logsumexp(-1).double()
                nats[some] = -log_probs.mean(1).cpu().numpy()
        return nats


def judge_run(judge: CausalJudge, run: SampleRun) -> dict[str, float | str | None]:
    """Mean scores of the last texts of the chains (a decoder's texts, thinned evenly) and of the texts that they started from."""
    texts = list(run.last["text"])
    texts = texts[:: max(1, -(-len(texts) // MOST_TEXTS))]
    started = not run.settings.kernel.decodes and "text" in run.starts
    samples = _mean(judge(texts))
    starts = _mean(judge(list(run.starts["text"])[:MOST_TEXTS])) if started else None
    known, uniform = [nats for nats in (samples, starts) if nats is not None], log(len(judge.words))
    if known and min(known) > uniform:
        warnings.warn(
            f"judge {judge.name!r} predicts the texts worse than a uniform distribution over its tokens ({min(known):.1f} nats, "
            f"uniform {uniform:.1f}): it may have another model's tokenizer, or the texts are not of its kind",
            UnmaskWarning,
            stacklevel=2,
        )
    return {"name": judge.name, "samples": samples, "starts": starts}


def _mean(scores: NDArray[np.float64]) -> float | None:
    known = scores[~np.isnan(scores)]
    return float(known.mean()) if len(known) else None
