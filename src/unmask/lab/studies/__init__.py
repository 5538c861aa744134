"""The studies of `unmask lab`: one statement of the theory per file. What computes is imported when a study runs."""
