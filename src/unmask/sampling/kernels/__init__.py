"""Markov kernels, one family per file, and what they share: states, scans."""
