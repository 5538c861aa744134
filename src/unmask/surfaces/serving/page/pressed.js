// The words of a text that are pressed: a map from a word's place to the kind of its blank.

// Pressed words from the address. It counts them from 0: "3,5w" is the fourth word as one token, and the sixth as a
// whole word. A letter that is no sign of a kind is one token, too.
export function parsed(blanks, kinds) {
  const pressed = new Map();
  for (const part of blanks.split(",")) {
    const found = part.match(/^(?<place>\d+)(?<sign>[a-z]?)$/);
    if (!found) continue;
    const kind = kinds.find((one) => one.sign === found.groups.sign);
    pressed.set(Number(found.groups.place), kind?.name ?? "token");
  }
  return pressed;
}

// The pressed words of an edited text. Words before the edit keep their place from the front, and words after it their
// place from the end. Words within the edit are not pressed any more.
export function carried(pressed, before, after) {
  const old = before.map((word) => word.text);
  const now = after.map((word) => word.text);
  const shorter = Math.min(old.length, now.length);
  const isSameFromEnd = (n) => old[old.length - 1 - n] === now[now.length - 1 - n];
  let front = 0; // words before the edit
  while (front < shorter && old[front] === now[front]) front += 1;
  let back = 0; // words after it
  while (front + back < shorter && isSameFromEnd(back)) back += 1;
  const afterEdit = old.length - back; // the first place after it
  const moved = now.length - old.length;
  const kept = new Map();
  for (const [place, kind] of pressed) {
    if (place < front) kept.set(place, kind);
    else if (place >= afterEdit && place < old.length) kept.set(place + moved, kind);
  }
  return kept;
}
