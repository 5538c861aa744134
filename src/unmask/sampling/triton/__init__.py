"""Random numbers, drawn tokens and energy terms on a GPU."""
