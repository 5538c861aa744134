// Arcs between the words of a text, as SVG.
import { px, svg } from "./dom.js";
import { figure } from "./figure.js";
import { direction, shown, wide } from "./text.js";

// The arcs have a room of min(HIGHEST, LOWEST + PER_PIXEL * length of the longest arc) pixels. An arc rises by
// (room - LESS) * (its length / that of the longest arc) ** FLATTER pixels above its feet, which stand BELOW the room.
const HIGHEST = 220;
const LOWEST = 30;
const PER_PIXEL = 0.32;
const LESS = 4;
const BELOW = 6;
const FLATTER = 0.75;
const PEAK = 0.75; // a cubic curve peaks at 3/4 of the height of its control points
const BASE_LINE = 26; // of the words: pixels below the room
const FOOT = 34; // the end of the drawing: pixels below the room
const THINNEST = 0.6; // pixels of an arc's width
const THICKEST = 14;
const FAINTEST = 0.15; // opacity
const STRONGEST = 0.92; // of an arc whose share is at least 1/2
const WORD = 15; // size of the words
const PADDING = 5; // pixels on each side of a word
const SMALLEST_GAP = 2; // pixels between words with their padding

const width = (pair) => THINNEST + (THICKEST - THINNEST) * pair.share;
const opacity = (pair) => FAINTEST + (STRONGEST - FAINTEST) * Math.min(1, 2 * pair.share);

// The words of a text: of each, the numbers of its pieces.
function wordsOf(pieces) {
  const words = [];
  pieces.forEach((piece, n) => {
    const goesOn = n > 0 && pieces[n - 1].word === piece.word;
    if (goesOn) words.at(-1).push(n);
    else words.push([n]);
  });
  return words;
}

// The words of a text side by side: the middles of words and of their pieces, and the whole width, all in pixels.
// words   as `wordsOf` gives them
// room    pixels that there are; words that take more are drawn wider
function middles(pieces, words, room) {
  const widthOf = (numbers) => {
    const texts = numbers.map((n) => shown(pieces[n].text));
    return wide(texts.join(""), WORD);
  };
  const needed = words.map((numbers) => widthOf(numbers) + 2 * PADDING);
  const total = needed.reduce((sum, pixels) => sum + pixels, 0);
  // What is left is shared out: a gap between two words, and half a gap at each end.
  const gap = Math.max(SMALLEST_GAP, (room - total) / words.length);
  const across = Math.max(room, total + gap * words.length);
  const isMirrored = direction(pieces.map((piece) => piece.text).join(" ")) === "rtl";
  const mirrored = (x) => (isMirrored ? across - x : x);
  const ofPieces = [];
  const ofWords = [];
  let start = gap / 2; // where the next word begins, with its padding
  words.forEach((numbers, w) => {
    ofWords.push(mirrored(start + needed[w] / 2));
    numbers.forEach((n, k) => {
      const before = widthOf(numbers.slice(0, k)); // of the pieces of this word before the piece n
      const startOfPiece = start + PADDING + before;
      ofPieces[n] = mirrored(startOfPiece + widthOf([n]) / 2);
    });
    start += needed[w] + gap;
  });
  return { across, ofPieces, ofWords };
}

// Arcs over the words of a text.
// pieces        [{text, word}]; pieces of one word are written as one
// pairs         [{i, j, share, title}] of pieces, at least one, the strongest first; an arc is as wide as its share
// isOff(pair)   whether its arc has the second colour
// enter(pair)   when the pointer comes onto its arc
// exit(pair)    when the pointer leaves it
// pick(pair)    when its arc is clicked
// on            the chosen pair, one of `pairs`
export function arcs(pieces, pairs, { isOff, enter, exit, pick, on }) {
  const words = wordsOf(pieces);

  function classes(pair) {
    const names = ["arc"];
    if (isOff(pair)) names.push("off");
    if (pair === on) names.push("on");
    return names.join(" ");
  }

  function piece(n) {
    const isOn = on.i === n || on.j === n;
    return svg("tspan", { class: isOn ? "on" : "" }, shown(pieces[n].text));
  }

  function draw(roomAcross) {
    const { across, ofPieces, ofWords } = middles(pieces, words, roomAcross);
    const lengthOf = ({ i, j }) => Math.abs(ofPieces[j] - ofPieces[i]);
    const longest = Math.max(1, ...pairs.map(lengthOf));
    const room = Math.min(HIGHEST, LOWEST + longest * PER_PIXEL);
    const base = px(room + BELOW);

    function arc(pair) {
      const from = px(ofPieces[pair.i]);
      const to = px(ofPieces[pair.j]);
      const part = Math.abs(to - from) / longest;
      const rise = (room - LESS) * part ** FLATTER;
      const control = px(room + BELOW - rise / PEAK);
      return svg("path", {
        d: `M ${from} ${base} C ${from} ${control}, ${to} ${control}, ${to} ${base}`,
        "data-key": `arc:${pair.i},${pair.j}`, "stroke-width": width(pair), opacity: opacity(pair),
        class: classes(pair),
        onmouseenter: () => enter(pair), onmouseleave: () => exit(pair), onclick: () => pick(pair),
      }, svg("title", {}, pair.title));
    }

    const texts = words.map((numbers, w) => svg("text", {
      class: "word", x: ofWords[w], y: room + BASE_LINE, "text-anchor": "middle",
    }, numbers.map(piece)));
    const label = "arcs between words; the table lists them";
    const all = { class: "arcs", width: across, height: room + FOOT, role: "img", "aria-label": label };
    const strongestLast = pairs.toReversed(); // above the others
    return svg("svg", all, strongestLast.map(arc), texts);
  }

  return figure(draw, "arcs between words");
}
