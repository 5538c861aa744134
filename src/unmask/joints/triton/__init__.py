"""The reads of a pair's tables on a GPU."""
