"""The parts of the search in `unmask.joints.chain_search`."""
