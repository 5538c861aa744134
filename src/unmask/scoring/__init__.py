"""A number for a sentence, by a named definition, with its error where it has one.

    registry    the scores: definition, whether it is a probability, where it is computed

This room stands right of `sampling`, whose energies are among the scores.
"""
