"""Variants of one sequence: their scores under the model, against measurements, and libraries
of them.
"""
