"""The life of chains: where they start, how they advance, what is kept, and how far to trust it."""
