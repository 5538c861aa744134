"""One text in, one object out: completions, comparisons, dependence, and their figures."""
