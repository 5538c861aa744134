"""The paper's evaluation for any model and any text: pairs chosen, measured one by one, kept, and put into a table.

datasets, conllu      where texts and their parses come from
pairs, pairs_file     two positions of a text: chosen with a seed, or given
plan                  what a run will do, settled before the first pass
measure               one pair: its rows
evaluate              all pairs: in this process or on Ray, kept in a folder or in memory
table, figures        what the rows say: Table 1, and NLL against distance
evaluation            the result: table, rows, files
"""
