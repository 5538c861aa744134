"""What the page draws of a result, a file for each view.

A drawing holds shapes and words: shares from 0 to 1 for what is drawn, and a text for every
number, label and legend. JavaScript has no number format and no sentence of its own. Every number
is one of the result's, or of the joint that it was computed from; thresholds and directions are
those of the rooms to the left. `shapes` has what several views draw.
"""
