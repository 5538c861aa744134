"""Texts from the energy behind a masked language model: Markov chains that are proved right by
enumeration, and decoders.

target       E_raw and E_norm; fixed and allowed tokens
registry     the list of kernels and decoders        settings    all options that decide the samples
kernels/     Markov kernels: `kernel` the state, a step, pseudo-Gibbs; `metropolis` proposals
             and their acceptance
decoders/    rules that fill blanks: `decoder` ancestral and mask-predict, `revealing` those
             with a law, `verified`
engine/      `passes` how the model is asked, `calls` of one shape, `memory` how many chains fit;
             `randomness` random numbers, `token_draw` drawn tokens
chains/      a whole run. `drawing` takes it from the start to the end; `groups` says which chains
             run side by side, `starts` where they start, `group_run` how they advance, `sharing`
             how workers do it. What is kept: `snapshot`, `samples`, `keeper`, `sample_folder`.
             The result is `sample_run`. How far to trust it: `diagnosis`, with `functionals`,
             `verdict`, `judge` and `figure`.
"""
