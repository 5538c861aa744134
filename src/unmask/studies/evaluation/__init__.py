"""The paper's evaluation for any model and any text: pairs chosen, measured, stored, and put
into a table; and the frontier.
"""
