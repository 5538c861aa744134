"""How a text becomes tokens and back: the only room that knows tokenizers."""
