"""How the fixed point of Arnold-Gokhale's family is found in few reads of the tables."""
