"""The paper's evaluation for any model and any text: pairs chosen, measured one by one, kept, and put into a table."""
