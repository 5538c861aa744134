"""The paper's evaluation for any model and any text: pairs chosen, measured one by one, stored, and put into a table.

datasets     texts and their parses
pairs        two positions of a text: chosen with a seed, or given
measure      one pair or several at once: their rows
evaluate     all pairs: in this process or on Ray, stored in a folder or in memory
table        Table 1, NLL against distance, and the result with its files
"""
