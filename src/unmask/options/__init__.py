"""Every option of every verb, declared once: name, default, kind, help, and which methods read it.

option    one row, and the table of a verb: a frozen dataclass of rows, checked when it is made
kinds     how a word of the command line becomes a value, and which values are right
shared    rows that several verbs have
answers, sampling, scoring, training, translation, lab    the tables
elsewhere    names that other tools have for options and commands, for the line that answers an unknown one

The command and its help, the check of a value, the refusal of an option that the chosen method does not read, the arguments in
a docstring and the tables of docs/cli/ come from these rows. Python's signatures are written out; a test holds them equal.
Nothing here loads torch or NumPy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unmask.options.option import Options

VERBS = {
    "fill": "Fill the blanks of a text by their joint probability, beside what independent blanks would give.",
    "compare": "Put the joints of all constructions side by side: completions, entropy, dependence, faithfulness to the model.",
    "dependence": "Measure how much blanks, or tokens, depend on each other: the mutual information of every pair.",
    "mutants": "Log-probabilities of mutants of a sequence, the sum of their single effects, and the difference: epistasis.",
    "evaluate": "Measure every construction on pairs of tokens: U-PPL, P-PPL, A-KL and G-KL, as in Table 1 of the paper.",
    "frontier": "Nats per token against passes, for every decoder that has a law, beside one token per pass.",
    "score": "Score sentences: pseudo-likelihoods, chain rules over orders, energies, and a normalised log-probability.",
    "sample": "Sample texts by Markov chains or decoders, and say how far to trust them.",
    "diagnose": "Acceptance and novelty, R-hat and effective sample sizes, repetition, and what they mean; writes figures too.",
    "train": "Train a masked language model from plain text, or with --objective causal a causal one.",
    "translate": "Translate with a model that `unmask train --parallel` has made: JSON lines, one per source.",
    "check": "Say what was understood of a model (tokenizer, mask, head, longest text, speed) and what looks wrong.",
    "serve": "Open a page on this machine that shows joints, dependence, chains and scores of a model.",
    "lab": "The theory of generative masked language models, computed exactly on small models.",
}
"""Each command, and the first line of its help; the help of `unmask` shows them without loading a table."""

_MODULES = {
    "answers": ("fill", "compare", "dependence", "mutants", "check", "serve"),
    "sampling": ("sample", "diagnose"),
    "scoring": ("score", "evaluate", "frontier"),
    "training": ("train",),
    "translation": ("translate",),
}


def table(verb: str) -> type[Options]:
    """The options of a verb: those of `fill` are `FillOptions`."""
    module = next(module for module, verbs in _MODULES.items() if verb in verbs)
    found: type[Options] = getattr(import_module(f"{__name__}.{module}"), f"{verb.capitalize()}Options")
    return found
