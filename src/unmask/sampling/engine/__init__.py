"""Calls of the model: passes, memory, random numbers, tokens drawn from conditionals."""
