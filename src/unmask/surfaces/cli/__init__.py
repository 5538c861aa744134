"""The command line: parses, calls the function of the same name, prints."""
