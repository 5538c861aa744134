"""Constructions: rules from the unary conditionals of a block to a joint distribution over it."""
