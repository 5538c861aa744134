"""The page of `unmask serve` and its JSON interface: no mathematics, every number comes from
the rooms to the left.
"""
