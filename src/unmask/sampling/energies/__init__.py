"""Energies of whole texts: what chains sample from.

Each energy of a model is one class in one file; `with_terms` adds terms of the user's own.
"""
