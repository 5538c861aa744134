"""The scores, each in its file: what it is, its equation, its options and its computation."""
