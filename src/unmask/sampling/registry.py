"""The one list of kernels and decoders.

The choices of `--kernel`, the options that each reads, its memory, verdicts, tables and the colours of figures come from this
list. It imports no torch. A new kernel or decoder is a file and one entry here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from unmask.checks import one_of
from unmask.errors import InputError

PROPOSAL = ("proposal_temperature", "top_k", "nucleus")
CHAIN = ("init", "random_start", "scan", *PROPOSAL)
METROPOLIS = (*CHAIN, "delayed")
BLOCKS = (*METROPOLIS, "temperature", "block_shape")
DECODING = ("decoding_steps", "schedule", "decoding_temperature")
REVEALING = ("decoding_steps", "decoding_temperature")

TARGET = "The chain leaves exp(-E / T) invariant: E the {energy} energy and what was added to it, T = {temperature:g}."
PSEUDO_GIBBS = (
    "Pseudo-Gibbs accepts everything: its law is not exp(-E) of either energy and depends on the order of updates. "
    "R-hat shows whether the chains agree with each other, not whether they agree with a target."
)
ANNEALING = "Annealing is optimisation: its texts have low energy, and are samples of no distribution."
ANCESTRAL = "Independent draws with exact log-probabilities, given each text's order; no chain, so nothing has to mix."
REFINED = (
    "Independent draws of the construction family:1,LAMBDA, LAMBDA the restart: the chain rule refined by Gibbs steps; "
    "nothing has to mix. Their log-probabilities are exact for two blanks, and not known for more."
)
REVEALED = (
    "Independent draws with exact log-probabilities (at temperature 0 the law is one text); no chain, so nothing has to mix. "
    "The law is the decoder's own: blanks that are filled together do not see each other."
)
DECODED = "Decoded texts, independent of each other; they are samples of no named distribution."


@dataclass(frozen=True)
class Entry:
    """A kernel (one step of a Markov chain) or a decoder (a rule that fills blanks).

    name        as it is typed
    label       in headings of figures and tables
    factory     "module:class"; `build` gives the class those of its fields that it finds among the settings
    colour      in figures
    step        one step, in words
    invariant   the law that its steps leave invariant
    verdict     the law that its texts are samples of, in a sentence
    options     the settings that it uses, besides those that every kernel uses
    sites       how many sites a step redraws; None: `block_size` of them
    decodes     a decoder: its texts are independent of each other
    mixes       R-hat and effective sample sizes mean something for its texts
    conditionals         how many conditionals of a text it draws from at once; None: those of the sites that a step redraws, of
                         a decoder those of all sites
    whole_conditionals   it holds these as whole distributions, whatever is kept
    law                  of a decoder that chooses positions before it draws their tokens, and so has a law: its sets, in words
    bound                the option that bounds a set, for decoders that take a bound or a number of passes
    random_order         its law is given a random order of the blanks
    corrects             it asks the model about tokens that the model sees, which takes training (`train --refinement`)
    """

    name: str
    label: str
    factory: str
    colour: str
    step: str
    invariant: str
    verdict: str
    options: tuple[str, ...]
    sites: int | None = 1
    decodes: bool = False
    mixes: bool = True
    conditionals: int | None = None
    whole_conditionals: bool = False
    law: str = ""
    bound: str = ""
    random_order: bool = False
    corrects: bool = False

    def load(self) -> Any:
        """The class of the kernel or decoder."""
        from importlib import import_module

        module, _, name = self.factory.partition(":")
        return getattr(import_module(module), name)

    def build(self, **available: Any) -> Any:
        """The kernel or decoder, from those of `available` that its class has fields for; None stands for the class's default."""
        from dataclasses import fields

        made, known = self.load(), {name: value for name, value in available.items() if value is not None}
        return made(**{field.name: known[field.name] for field in fields(made) if field.name in known})


HERE = "unmask.sampling"
OWN_LAW = "its own law, with log_prob"
PI = "exp(-E / temperature)"
KERNELS: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        Entry("mh", "Metropolis-Hastings", f"{HERE}.kernels.metropolis:MetropolisHastings", "#0072B2",
              "one token from its conditional, accepted or not", PI, TARGET, (*METROPOLIS, "temperature")),
        Entry("gibbs", "pseudo-Gibbs", f"{HERE}.kernels.gibbs:PseudoGibbs", "#D55E00",
              "one token from its conditional, always accepted", "a law of its own, which depends on the scan", PSEUDO_GIBBS,
              CHAIN),
        Entry("block", "product blocks", f"{HERE}.kernels.block:ProductBlock", "#009E73",
              "a block of tokens at once, independently of each other", PI, TARGET,
              (*BLOCKS, "block_size"), sites=None),
        Entry("sequential-block", "sequential blocks", f"{HERE}.kernels.block:SequentialBlock", "#CC79A7",
              "a block of tokens, each given those before it", PI, TARGET,
              (*BLOCKS, "block_size"), sites=None, conditionals=1),
        Entry("pair-joint", "pairs from a joint", f"{HERE}.kernels.pair_joint:PairJoint", "#E69F00",
              "a pair of tokens, 0.9 from a joint that is derived for it and 0.1 from the product", PI, TARGET,
              (*BLOCKS, "joint", "candidates"), sites=2, whole_conditionals=True),
        Entry("tempering", "parallel tempering", f"{HERE}.kernels.metropolis:ParallelTempering", "#56B4E9",
              "mh on a ladder of replicas that swap", "exp(-E / first temperature of the ladder)", TARGET,
              (*METROPOLIS, "ladder")),
        Entry("annealing", "annealing", f"{HERE}.kernels.metropolis:Annealing", "#7F3C8D",
              "mh while the temperature falls from hot to cold", "nothing: this is optimisation", ANNEALING,
              (*METROPOLIS, "hot", "cold"), mixes=False),
        Entry("ancestral", "ancestral sampling", f"{HERE}.decoders.ancestral:Ancestral", "#117733",
              "a new text: blanks filled one by one", "an explicit distribution, with log_prob", ANCESTRAL,
              (*PROPOSAL, "order"), decodes=True, mixes=False, conditionals=1),
        Entry("refined", "refined draws", f"{HERE}.decoders.ancestral:Refined", "#AA4499",
              "a new text: the chain rule, then a geometric number of Gibbs steps", "family:1,LAMBDA, with log_prob of pairs",
              REFINED, ("restart",), decodes=True, mixes=False, conditionals=1),
        Entry("mask-predict", "mask-predict", f"{HERE}.decoders.mask_predict:MaskPredict", "#882255",
              "a new text: all blanks predicted, the least confident again", "nothing named", DECODED, DECODING,
              decodes=True, mixes=False),
        Entry("confidence", "most confident first", f"{HERE}.decoders.mask_predict:ConfidenceOrder", "#555555",
              "a new text: all blanks predicted, the most confident kept", "nothing named", DECODED, DECODING,
              decodes=True, mixes=False),
        Entry("revise", "revision", f"{HERE}.decoders.mask_predict:Revise", "#332288",
              "a new text: all blanks predicted, then every token again from the whole text", "nothing named", DECODED,
              ("decoding_steps", "decoding_temperature"), decodes=True, mixes=False, corrects=True),
        Entry("entropy-bound", "entropy-bound", f"{HERE}.decoders.choosing:EntropyBound", "#44AA99",
              "a new text: the blanks of lowest entropy filled, as many as stay under a bound", OWN_LAW, REVEALED,
              (*REVEALING, "gamma"), decodes=True, mixes=False, bound="gamma",
              law="the blanks of lowest entropy whose entropies without the largest sum to gamma at most"),
        Entry("threshold", "confidence threshold", f"{HERE}.decoders.choosing:Threshold", "#DDAA33",
              "a new text: the blanks filled whose likeliest token is likely enough", OWN_LAW, REVEALED,
              (*REVEALING, "tau"), decodes=True, mixes=False, bound="tau",
              law="the blanks whose likeliest token has probability tau or more, at least the surest"),
        Entry("lowest-entropy", "lowest entropies", f"{HERE}.decoders.choosing:LowestEntropy", "#BB5566",
              "a new text: the blanks of lowest entropy filled, equal numbers per step", OWN_LAW, REVEALED,
              REVEALING, decodes=True, mixes=False, law="the blanks of lowest entropy, equal numbers per pass"),
        Entry("random", "random sets", f"{HERE}.decoders.choosing:RandomSets", "#999933",
              "a new text: random blanks filled, equal numbers per step", OWN_LAW, REVEALED,
              REVEALING, decodes=True, mixes=False, random_order=True,
              law="blanks in a random order that the seed draws, equal numbers per pass"),
        Entry("interleaved", "interleaved", f"{HERE}.decoders.choosing:Interleaved", "#88CCEE",
              "a new text: every m-th blank filled, m the number of steps", OWN_LAW, REVEALED,
              REVEALING, decodes=True, mixes=False, law="every m-th blank, m the number of passes, in bit-reversed order"),
        Entry("least-dependent", "least dependent", f"{HERE}.decoders.least_dependent:LeastDependent", "#004488",
              "a new text: blanks filled together that hardly depend on each other", OWN_LAW, REVEALED,
              (*REVEALING, "gamma", "dependence", "profile"), decodes=True, mixes=False, bound="gamma",
              law="blanks whose estimated dependence on each other sums to gamma at most, least dependent next"),
    )
}  # fmt: skip


def with_law() -> list[str]:
    """The decoders that have a law."""
    return [name for name, entry in KERNELS.items() if entry.law]


def refuse_no_law(given: str, decoder: str) -> None:
    """Refuse a decoder whose law cannot be computed; `given` is the argument with its value, as messages name it."""
    if decoder in KERNELS and KERNELS[decoder].decodes and not KERNELS[decoder].law:
        raise InputError(
            f"{given}: {decoder} has no law that can be computed, because it does not choose positions before it draws their "
            f"tokens; use one of {', '.join(with_law())}"
        )


def entry_of(kernel: object) -> Entry:
    """The entry of a name; an unknown one is refused, with the nearest."""
    return KERNELS[one_of("kernel", kernel, KERNELS)]
