"""Picks the lines of a corpus that look like image captions, to be weighted up: `select_captions.py CORPUS... > captions.txt`.

A line is taken if it is short, starts as captions do ("A man", "Two dogs", "There is"), names something that captions show,
and holds nothing that they do not: quotes, digits, past tense of "be", first and second person, and the like.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from unmask.training.corpus import TextSource

PEOPLE = (
    "man|woman|men|women|boys?|girls?|people|person|child|children|kids|dogs?|group|guy|lady|ladies|couple|baby|players?|"
    "cat|horse|crowd"
)
START = re.compile(
    rf"(An?|Two|Three|Four|Five|Six|Several|Some|Many|{PEOPLE}|There (is|are)|The ({PEOPLE}|two|bus|train))\b", re.I
)
SHOWN = re.compile(
    rf"\b((is|are) [a-z]{{3,}}ing|{PEOPLE}|wearing|standing|sitting|holding|riding|walking|playing|looking|smiling|jumping|"
    r"watching|posing|lying|parked|outside|shirt|street|beach|table|bench|kitchen|bathroom|skateboard|surfboard|snowboard|"
    r"frisbee|tennis|baseball|soccer|umbrella|camera|bike|bicycle|motorcycle|giraffe|zebra|elephant|pizza|sandwich|laptop|"
    r"grass|snow|jacket|hat)\b",
    re.I,
)
NEVER = re.compile(
    r"\d{2,}|[\"“”;:()\[\]]|\b(was|were|had|ha(s|ve) been|been|would|could|should|will|shall|may|might|said|which|whom?|"
    r"I|you|we|us|my|your|Mr|Mrs|Miss|not|upon|thou|therefore|however|also|located|known|used|born|species|based|"
    r"restaurant|available)\b",
    re.I,
)


def is_caption(line: str) -> bool:
    """Whether a line looks like a caption."""
    return 3 <= len(line.split()) <= 26 and bool(START.match(line) and SHOWN.search(line)) and not NEVER.search(line)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        for text in TextSource.file(Path(name)).lines():
            if is_caption(text):
                print(text)
