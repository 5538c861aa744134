"""Markov kernels, one family per file."""
