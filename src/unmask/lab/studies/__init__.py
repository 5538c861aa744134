"""The studies of `unmask lab`: one statement of the slides per file."""
