"""Texts from the energy behind a masked language model: Markov chains that are proved right by enumeration, and decoders.

energy       E_raw and E_norm           target      an energy, held tokens, allowed tokens
acceptance   Metropolis-Hastings, early rejection
registry     the list of kernels and decoders        settings    all options that decide the samples
sample       `unmask.sample`
kernels/     Markov kernels, one family per file
decoders/    decoding rules, one family per file
engine/      how the model is asked: passes, memory, random numbers, drawn tokens
run/         a run's life: groups and their starts, how they advance, what is kept, `unmask.diagnose`
enumeration  the exact transition matrix of a kernel's own code
"""
