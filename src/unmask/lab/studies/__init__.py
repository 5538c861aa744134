"""The studies of `unmask lab`: one statement of the slides a file."""
