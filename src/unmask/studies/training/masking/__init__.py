"""Masking schemes: laws of the positions that are hidden from a model in training.

A scheme is a class in a file of this folder, or a class of the user's own.
"""
