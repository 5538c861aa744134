"""How a pass is made fast: encoders, substitution, one position, the head."""
