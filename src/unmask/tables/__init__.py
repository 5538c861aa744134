"""Everything before a rule: unary conditionals of a block, and the candidates they run over."""
