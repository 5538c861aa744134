"""A run's life: where chains start, how they advance, what is kept, and how far to trust it."""
