"""Texts from the energy behind a masked language model: Markov chains with a proof that they are right, and decoders.

energy       E_raw and E_norm           target      an energy, held tokens, allowed tokens
acceptance   Metropolis-Hastings, early rejection, delayed acceptance
kernels/     one Markov kernel per file decoders/   one decoding rule per file
registry     the one list of both       settings    what decides the samples
state        texts, and what the model said about them; passes, memory: how the model is asked
sample       `unmask.sample`            diagnostics `unmask.diagnose`
draw         groups of chains, checkpoints and resumption; run, run_folder: what they leave
enumeration  the exact transition matrix of a kernel's own code
"""
