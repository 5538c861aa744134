"""How well a model of pairs translates the validation set: by what the best of five lengths is taken, and what that costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

LENGTHS = 5
STEPS = 10


def choices(pair: Any, sources: Sequence[str], references: Sequence[str], steps: int = STEPS) -> dict[str, Any]:
    """BLEU of mask-predict by each choice among five lengths, at the likeliest and at the reference's length; and more.

    "length is right": how often the likeliest length, or one of the five, is the reference's. "nats per token" is -log p of the
    references by one random order each, given their lengths. "stutter" is that of the texts chosen by norm, per token.
    """
    from sacrebleu.metrics import BLEU

    from unmask.sampling.run.text_statistics import stutter_rate
    from unmask.sampling.settings import SampleSettings
    from unmask.translation.translators import Draft, Drafting

    ids = [tuple(one) for one in pair.spelling.encode(sources)]
    wanted = [tuple(one)[: pair.layout.longest_target] for one in pair.spelling.encode(references)]
    settings = SampleSettings.given(kernel="mask-predict", decoding_steps=steps, decoding_temperature=0.0)
    drafting = Drafting(pair, 0)

    def bleu(chosen: Sequence[Draft]) -> float:
        return float(BLEU().corpus_score([pair.spelling.text(draft.tokens) for draft in chosen], [list(references)]).score)

    told = [Draft(i, source, len(target), 0.0, target) for i, (source, target) in enumerate(zip(ids, wanted, strict=True))]
    spelled = [draft for draft in told if not set(draft.tokens) & set(pair.model.special_ids)]
    nats = -sum(drafting.scores(spelled, "any-order")) / sum(draft.length for draft in spelled)
    found = {"the reference's length": bleu(drafting.run([Draft(d.number, d.source, d.length) for d in told], settings))}
    likely = pair.likely_lengths(ids, LENGTHS)
    drafts = [Draft(LENGTHS * i + j, source, *one) for i, source in enumerate(ids) for j, one in enumerate(likely[i])]
    drafts = drafting.run(drafts, settings)
    found["likeliest length"] = bleu(drafts[::LENGTHS])
    right = [draft.length == len(wanted[i // LENGTHS]) for i, draft in enumerate(drafts)]
    groups = range(0, len(drafts), LENGTHS)
    exact = {"first": sum(right[::LENGTHS]) / len(ids), "five": sum(any(right[i : i + LENGTHS]) for i in groups) / len(ids)}
    stutter = 0.0
    for score in ("norm", "any-order", "raw"):
        values = drafting.scores(drafts, score)  # type: ignore[arg-type]
        sign = -1 if score == "any-order" else 1
        for per_token in (True, False):
            cost = [
                (sign * value - draft.log_length) / (draft.length if per_token else 1)
                for value, draft in zip(values, drafts, strict=True)
            ]
            best = [drafts[min(range(i, i + LENGTHS), key=cost.__getitem__)] for i in groups]
            found[f"{score}{' per token' if per_token else ''}"] = bleu(best)
            if score == "norm" and per_token:
                stutter = stutter_rate([list(draft.tokens) for draft in best])
    return {"bleu": found, "length is right": exact, "nats per token": nats, "stutter": stutter}
