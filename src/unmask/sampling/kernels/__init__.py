"""Markov kernels, one per file, and what they share: states, proposals, scans."""
