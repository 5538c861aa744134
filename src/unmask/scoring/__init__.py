"""A number for a sentence, by a named definition, with its error where it has one.

    registry    the scores: definition, whether it is a probability, where it is computed

This room is right of `sampling`: a score needs its energies and its Metropolis-Hastings kernel. Everything that
scores one text is here, so that one table has all scores.
"""
