"""Markov chains and decoders over texts, with exactness that tests show and cost counted in forward passes."""
