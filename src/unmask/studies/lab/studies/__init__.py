"""The seven studies of `unmask lab`: each computes one statement of the theory of Li et al.
(2024), and says what holds.

    dictionary   theorem 1: the samples that a masked loss needs and the mixing time of its
                 Gibbs sampler are one quantity
    masking      theorem 2: masking more is statistically better, and what that needs
    dependence   theorem 3, (1) and (2): strong dependence makes sampling and training slow
    parallel     theorem 3, (3): a parallel draw of several blanks is not a Gibbs step
    stutter      remark 1, "walking walking": a parallel draw says a word twice
    schedule     what it costs to unmask in few steps
    decoding     what a decoder that chooses positions before tokens loses, pass by pass

Each is a function with the name and the options of its command, in a file of its own.
"""
