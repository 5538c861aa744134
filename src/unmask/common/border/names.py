"""The name that was meant, where a name is not known."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

FAMILIAR: dict[str, str | tuple[str, ...]] = {
    "top_k": "top",
    "k": "top",
    "n": "top",
    "num_samples": ("n_texts", "chains"),
    "num_return_sequences": "n_texts",
    "chains": "n_texts",
    "metric": "score",
    "metrics": "score",
    "method": "construction",
    "scores": "score",
    "by": "rank_by",
    "joint": "construction",
    "joints": "constructions",
    "exact": "candidates=all",
    "targets": "answers",
    "data": "texts",
    "sentences": ("texts", "limit"),
    "model_name": "model",
    "checkpoint": "model",
    "output": "out",
    "output_dir": "out",
    "prompt": "template",
    "out": "save",
    "steps": ("sweeps", "passes"),
    "batch_size": "memory",
    "pairs": "data",
    "minimal_pairs": "data",
    "texts": "data",
    "decoding_steps": "passes",
    "decoder": "kernel",
    "decoding_temperature": "temperature",
    "max_new_tokens": "length",
    "temperature": "energy_temperature",
    "paper": "constructions",
    "init": "start",
    "random_start": "start",
}
"""Names that other tools have for arguments of ours, or that ours had; used only where the function
has ours and not theirs. Of several names of ours the first that the function has is meant. One may
have a value.
"""
OF_OTHER_METHODS = {
    "temperature": ("energy_temperature", "proposal_temperature"),
    "energy_temperature": ("temperature",),
    "proposal_temperature": ("temperature",),
    "passes": ("sets",),
    "sets": ("passes",),
}
"""Options of some methods, and what is meant where a method does not have them."""
OF_OTHER_VERBS: dict[tuple[str, str], str] = {
    **{
        ("sample", name): "generate"
        for name in (
            "decoder",
            "decoding_steps",
            "gamma",
            "n_texts",
            "num_return_sequences",
            "order",
            "passes",
            "profile",
            "sets",
        )
    },
    **{
        ("generate", name): "sample"
        for name in ("burn_in", "energy", "init", "kernel", "start", "sweeps", "thin")
    },
    ("mutants", "measured"): "assay",
    ("mutants", "ranking"): "assay",
    ("mutants", "column"): "assay",
    ("mutants", "variant"): "assay",
    ("mutants", "better"): "assay",
    ("mutants", "skip_bad"): "assay",
    ("mutants", "score"): "assay",
    ("mutants", "scores"): "assay",
    ("mutants", "orders"): "assay",
    ("assay", "mutations"): "mutants",
    ("assay", "changes"): "mutants",
    ("dependence", "profile"): "profile",
    ("dependence", "save"): "profile",
    ("dependence", "sentences"): "profile",
    ("score", "minimal_pairs"): "minimal_pairs",
    ("score", "pairs"): "minimal_pairs",
    ("minimal_pairs", "field"): "score",
    ("minimal_pairs", "rows"): "score",
    ("minimal_pairs", "sink"): "score",
}
"""A verb and an argument that it does not have, and the verb whose question such a call asks."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is meant: what other tools' `name` is called here, perhaps with a value
    as in "candidates=all", or the one that is written most like it.
    """
    names = list(known)
    familiar = FAMILIAR.get(name, ())
    if isinstance(familiar, str):
        familiar = (familiar,)
    for ours in familiar:
        ours_without_value, _, _ = ours.partition("=")
        if ours_without_value in names:
            return ours
    close = get_close_matches(name, names, n=1)
    return close[0] if close else None


def verb_that_has(verb: str, name: str) -> str | None:
    """The verb that is meant by a call of another verb with an argument `name`, which that one
    does not have; None if there is none.
    """
    return OF_OTHER_VERBS.get((verb, name))
