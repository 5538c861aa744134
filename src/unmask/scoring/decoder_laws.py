"""The law of a decoder as a score: a probability of a text of any length in a handful of passes.

    decoder:NAME@N   log law(x) = sum_{t <= N} sum_{i in K_t} log q(x_i | x_{S_t}),   K_t chosen by NAME from x_{S_t}

The text is revealed pass by pass as the decoder would draw it (`unmask.sampling.decoders.revealing`). A random order is drawn
from the seed and is the same for all texts of a length: an order that depended on the text would not give a probability.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Int
from torch import Tensor

from unmask.models.conditional_model import ConditionalModel
from unmask.runs.progress import Progress
from unmask.sampling.decoders.revealing import Law, law
from unmask.sampling.engine.passes import Passes
from unmask.sampling.engine.randomness import ChainStreams
from unmask.sampling.registry import entry_of
from unmask.sampling.target import Target
from unmask.scoring.batch import Scored, ScoreSettings, TextBatch
from unmask.scoring.masked_ranges import CPU_LOGITS, GPU_LOGITS
from unmask.scoring.registry import decoder_of


def score_laws(
    model: ConditionalModel, batch: TextBatch, names: Sequence[str], settings: ScoreSettings, progress: Progress | None = None
) -> dict[str, Scored]:
    """The scores `names`; as many passes per text as the decoder makes."""
    n, k = batch.sites.shape
    budget = GPU_LOGITS if model.device.type == "cuda" else CPU_LOGITS
    at_once = max(1, budget // (4 * model.vocab_size * k))
    passes = Passes(model, keeps="logits")
    found = {}
    for name in names:
        kernel, steps = decoder_of(name)
        by_site, special = torch.zeros((2, n, k), dtype=torch.float64, device=model.device)
        for rows, target in _alike(model, batch):
            decoder = entry_of(kernel).build(target=target, passes=passes, decoding_steps=steps, decoding_temperature=1.0)
            for part in rows.split(at_once):
                same = ChainStreams(settings.seed, [0] * len(part), model.device).at(0, 0)
                one: Law = law(decoder, batch.ids[part], same)
                by_site[part], special[part] = one.log_q, one.special
        found[name] = Scored(by_site.sum(1), by_site, {"special": special.sum(1)})
    return found


def _alike(model: ConditionalModel, batch: TextBatch) -> Iterator[tuple[Int[Tensor, " m"], Target]]:
    """The texts with the same sites, and their target, in which all other tokens are given."""
    each, which = batch.sites.unique(dim=0, return_inverse=True)
    for number, sites in enumerate(each):
        rows = (which == number).nonzero().flatten()
        template = batch.ids[rows[0]].index_fill(0, sites, model.mask_id)
        given = [t for t in range(len(template)) if t not in set(sites.tolist())]
        yield rows, Target(model, template.tolist(), given=given)
