"""The name that was meant, where a name is not known."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import NamedTuple

FAMILIAR: dict[str, tuple[str, ...]] = {
    # ---- what other tools call it ----
    "num_return_sequences": ("generate.n_texts",),
    "num_samples": ("n_texts", "chains", "generate.n_texts"),
    "n_samples": ("n_texts", "chains", "generate.n_texts"),
    "max_new_tokens": ("length", "generate.length"),
    "num_beams": ("beam", "translate.beam"),
    "prompt": ("template",),
    "top_k": ("top",),
    "k": ("top",),
    "n": ("top",),
    "num_chains": ("chains", "sample.chains"),
    "draws": ("sweeps", "sample.sweeps"),
    "burnin": ("burn_in",),
    "tune": ("burn_in",),
    "thinning": ("thin",),
    "method": ("construction",),
    "metric": ("score",),
    "metrics": ("score",),
    "masked_lm": ("model",),
    "model_name": ("model",),
    "model_name_or_path": ("model",),
    "checkpoint": ("model",),
    "torch_dtype": ("dtype",),
    "precision": ("dtype",),
    "input": ("data", "texts"),
    "output": ("out",),
    "output_dir": ("out",),
    "output_file": ("save",),
    "random_state": ("seed",),
    "random_seed": ("seed",),
    "train_file": ("data",),
    "validation_file": ("valid",),
    "learning_rate": ("lr",),
    "num_train_epochs": ("epochs",),
    "max_steps": ("steps",),
    "warmup_steps": ("warmup",),
    "batch_size": ("batch_tokens",),
    "per_device_train_batch_size": ("batch_tokens",),
    "optim": ("optimiser",),
    "optimizer": ("optimiser",),
    "vocab_size": ("vocab",),
    "hidden_size": ("width",),
    "num_layers": ("layers",),
    "num_hidden_layers": ("layers",),
    "num_heads": ("heads",),
    "num_attention_heads": ("heads",),
    "max_seq_length": ("max_length",),
    "max_position_embeddings": ("max_length",),
    "mlm_probability": ("masking=fixed:0.15",),
    # ---- what ours was called ----
    "exact": ("candidates=all",),
    "joint": ("construction",),
    "joints": ("constructions",),
    "paper": ("constructions=paper",),
    "scores": ("score",),
    "by": ("rank_by",),
    "sentences": ("limit", "texts"),
    "lengths": ("length_beam",),
    "passes": ("max_passes",),
    "targets": ("answers",),
    "init": ("start",),
    "random_start": ("start=random",),
    "decoding_steps": ("passes",),
    "decoding_temperature": ("temperature",),
    "pieces": ("write a word of 1 to 3 tokens as [WORD:1-3] in the text",),
    "resume": ("the same command continues a run that was stopped",),
    # ---- what another verb of ours has ----
    "corpus": ("data", "texts"),
    "data": ("texts",),
    "texts": ("data",),
    "pairs": ("data",),
    "minimal_pairs": ("data",),
    "out": ("save",),
    "chains": ("n_texts",),
    "steps": ("sweeps", "passes"),
    "decoder": ("kernel",),
    "temperature": ("energy_temperature",),
    **{
        f"sample.{name}": ("generate.",)
        for name in (
            "decoder",
            "decoding_steps",
            "decoding_temperature",
            "gamma",
            "n_texts",
            "order",
            "passes",
            "profile",
            "sets",
        )
    },
    **{
        f"generate.{name}": ("sample.",)
        for name in (
            "burn_in",
            "energy",
            "init",
            "kernel",
            "random_start",
            "start",
            "sweeps",
            "thin",
        )
    },
    **{
        f"mutants.{name}": ("assay.",)
        for name in (
            "measured",
            "ranking",
            "column",
            "variant",
            "better",
            "skip_bad",
            "score",
            "scores",
            "orders",
        )
    },
    "assay.mutations": ("mutants.",),
    "assay.changes": ("mutants.",),
    "dependence.profile": ("profile.",),
    "dependence.save": ("profile.",),
    "dependence.sentences": ("profile.",),
    "score.minimal_pairs": ("minimal_pairs.",),
    "score.pairs": ("minimal_pairs.",),
    "minimal_pairs.field": ("score.",),
    "minimal_pairs.rows": ("score.",),
    "minimal_pairs.sink": ("score.",),
}
"""Names of arguments that we do not have, or not there, and what each leads to, the first that the
call can use. A name with a verb before it counts in calls of that verb only.

    top                 an argument of the function that was called, if it has it
    candidates=all      the same, with its value
    generate.n_texts    an argument of another verb
    assay.              another verb: the question is its
    write ... there     advice of several words
"""
OF_OTHER_METHODS = {
    "temperature": ("energy_temperature", "proposal_temperature"),
    "energy_temperature": ("temperature",),
    "proposal_temperature": ("temperature",),
    "passes": ("sets",),
    "sets": ("passes",),
}
"""Options of some methods, and what is meant where a method does not have them."""


class Meant(NamedTuple):
    """What a name that is not known leads to.

    verb       another verb that has the argument, or whose question it is; "" for the one called
    argument   of ours; "" for none
    value      that it needs; None for the value that was given
    advice     words in the place of all of these
    """

    verb: str = ""
    argument: str = ""
    value: str | None = None
    advice: str = ""


def read_meant(written: str) -> Meant:
    """What an entry of FAMILIAR says."""
    if " " in written:
        return Meant(advice=written)
    target, _, value = written.partition("=")
    verb, dot, argument = target.rpartition(".")
    if not dot:
        argument = target
    return Meant(verb=verb, argument=argument, value=value or None)


def meant_by(verb: str, name: str, known: Iterable[str]) -> Meant | None:
    """What an argument means that a verb, or another function, does not have; None if nothing is
    like it.

    known   the arguments that it has
    """
    names = list(known)
    for entry in (*FAMILIAR.get(f"{verb}.{name}", ()), *FAMILIAR.get(name, ())):
        meant = read_meant(entry)
        if meant.verb == verb:
            meant = meant._replace(verb="")
        if meant.verb or meant.argument in names:
            return meant
        if meant.advice:
            return meant
    close = nearest(name, names)
    return None if close is None else Meant(argument=close)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is written most like another; None if none is like it."""
    close = get_close_matches(name, list(known), n=1)
    return close[0] if close else None
