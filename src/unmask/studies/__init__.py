"""The studies of the papers, on the rooms to the left."""
