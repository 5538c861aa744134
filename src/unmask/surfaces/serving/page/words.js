// The words of a text as buttons.
import { h } from "./drawing/dom.js";

const NAMED = 5; // unknown words that are listed
const COVER = "▁";
const COVER_OF_WORD = COVER.repeat(3); // of one width, so that it does not tell how long the word is
const NUMBERED = 10; // every tenth residue has its number, as have the first and those that are pressed

// Names the words that the model reads as the unknown token; "" if it knows all of them.
// sentence   of the server, with {words} in the place of their names
// after      what follows the names: which text has the words, if there are several
export function unknownLine(sentence, words, after = "") {
  const unknown = words.filter((word) => !word.known).map((word) => `“${word.text}”`);
  const names = [...new Set(unknown)];
  if (!names.length) return "";
  const more = names.length > NAMED ? ` and ${names.length - NAMED} more` : "";
  const named = names.slice(0, NAMED).join(", ") + more + after;
  return sentence.replace("{words}", () => named); // a function, since a word may have "$&" in it
}

// A word of the list.
// i           its place in the text, from 0
// letters     whether words are single letters, which are numbered and gone through by arrow keys
// kind        the kind of the blank that a pressed word is; undefined of a word that is not pressed
// put         what is shown in its place; undefined if the word itself is
// isPinned    whether `put` is pinned
// isStop      whether the tab key stops at this letter; it stops at one of them, and arrow keys go to the others
// hides       whether a pressed word is covered
// press()     on a click
// after       an element that follows it; null without one
export function wordItem(word, i, { letters, kind, put, isPinned, isStop, hides, press, after }) {
  const isPressed = kind !== undefined;
  const isTenth = (i + 1) % NUMBERED === 0;
  const isNumbered = letters && (isPressed || isTenth || i === 0);
  const number = isNumbered ? h("span", { class: "number", "aria-hidden": "true" }, String(i + 1)) : null;
  const forArrows = letters ? { "data-at": `0,${i}`, tabIndex: isStop ? 0 : -1 } : {}; // row and column, see arrows.js
  const button = h("button", {
    type: "button",
    class: classes(word, put, isPinned),
    lang: "", // the words may be of any language
    "aria-pressed": String(isPressed),
    "aria-label": spoken(word, { isPressed, put, isPinned }),
    "data-key": `word:${i}`,
    ...forArrows,
    title: word.title,
    onclick: press,
  }, put ?? written(word, letters, isPressed && hides));
  return h("li", { class: isNumbered ? "numbered" : "" }, number, button, after);
}

// The button that makes a blank the next kind of blank.
// i        the place of its word, from 0
// number   of the blank, from 1
// extent   how many tokens it takes, in words
// turn()   on a click
export function kindButton(i, number, extent, turn) {
  return h("button", {
    type: "button", class: "kind", "data-key": `kind:${i}`, title: "Click to make it another kind of blank",
    "aria-label": `${extent}: kind of blank ${number}`, onclick: turn,
  }, extent);
}

function classes(word, put, isPinned) {
  const isMark = /^\p{P}$/u.test(word.text); // stands close to the word before it
  const names = ["word"];
  if (put !== undefined) names.push("filled");
  if (isPinned) names.push("pinned");
  if (!word.known) names.push("unknown");
  if (isMark) names.push("mark");
  return names.join(" ");
}

// What a reader of the screen says of a word.
function spoken(word, { isPressed, put, isPinned }) {
  const parts = [word.label];
  if (isPressed) parts.push(isPinned ? "pinned" : "chosen");
  if (isPressed && put !== undefined) parts.push(put);
  return parts.join(", ");
}

// The letters of a word, or what covers them.
function written(word, letters, isCovered) {
  if (!isCovered) return word.text;
  const isOneSign = letters || word.blank !== null; // a blank that was typed has no word to cover
  return isOneSign ? COVER : COVER_OF_WORD;
}
