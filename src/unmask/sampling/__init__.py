"""Texts from the energy behind a masked language model: Markov chains that are proved right by
enumeration, and decoders.

target       E_raw and E_norm; fixed and allowed tokens
settings     all options that decide the samples
kernels/     Markov kernels, one class in one file; `kernel` has their base class, `metropolis` that
             of those that propose, `state` what a step changes, `sweep` the sites of a sweep
decoders/    rules that fill blanks, one class in one file; `decoder` has their base class,
             `in_steps` and `revealing` those of two families
methods      all of them in one list
on_target    a kernel or decoder bound to a target
kernel_check, decoder_check   the laws that they keep; `enumeration` of transition matrices
engine/      `passes` how the model is asked, `calls` of one shape, `memory` how many chains fit;
             `randomness` random numbers, `token_draw` drawn tokens
chains/      a whole run. `drawing` takes it from the start to the end; `groups` says which chains
             run side by side, `starts` where they start, `group_run` how they advance, `sharing`
             how workers do it. What is kept: `snapshot`, `samples`, `keeper`, `sample_folder`.
             What was drawn is `chain_samples`, which `assembling` puts together. How far to trust
             it: `chain_statistics`, measured by `statistics` and `convergence`; `judge`, `figure`.
             `generating` has the texts of decoders.
"""
