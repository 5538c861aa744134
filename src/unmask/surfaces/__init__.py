"""The command line, the page and the harness: they read signatures, call verbs, show results."""
