"""How the model is asked: passes, memory, random numbers, tokens drawn from conditionals."""
