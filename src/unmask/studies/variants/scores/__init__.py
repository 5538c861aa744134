"""The scores of variants, each with its equation."""
