"""The constructions: each is one class, a rule from the tables of a block to a joint."""
