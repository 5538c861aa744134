// Arcs between the words of a text, as SVG.
import { px, svg } from "./dom.js";
import { figure } from "./figure.js";
import { direction, shown, wide } from "./text.js";

const HIGHEST = 220; // the most pixels above the words
const LOWEST = 30; // pixels above the words of arcs that span nothing
const PER_PIXEL = 0.32; // pixels above LOWEST that each pixel of the longest arc's length adds
const FLATTER = 0.75; // the height of an arc grows with this power of its length
const PEAK = 0.75; // a cubic curve peaks at 3/4 of the height of its control points
const ABOVE = 4; // pixels above the longest arc that stay free
const BELOW = 6; // pixels between HIGHEST and the feet of the arcs
const THINNEST = 0.6; // pixels of an arc's width
const THICKEST = 14;
const FAINTEST = 0.15; // opacity
const STRONGEST = 0.92; // of arcs from half of the greatest width on
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
  const lengthOf = (numbers) => wide(numbers.map((n) => shown(pieces[n].text)).join(""), WORD);
  const needed = words.map((numbers) => lengthOf(numbers) + 2 * PADDING);
  const total = needed.reduce((sum, pixels) => sum + pixels, 0);
  const gap = Math.max(SMALLEST_GAP, (room - total) / words.length);
  const across = Math.max(room, total + gap * words.length);
  const isMirrored = direction(pieces.map((piece) => piece.text).join(" ")) === "rtl";
  const mirrored = (x) => (isMirrored ? across - x : x);
  const ofPieces = [];
  const ofWords = [];
  let start = gap / 2; // of a word with its padding
  words.forEach((numbers, w) => {
    ofWords.push(mirrored(start + needed[w] / 2));
    numbers.forEach((n, k) => {
      const before = lengthOf(numbers.slice(0, k));
      ofPieces[n] = mirrored(start + PADDING + before + lengthOf([n]) / 2);
    });
    start += needed[w] + gap;
  });
  return { across, ofPieces, ofWords };
}

// Arcs over the words of a text.
// pieces        [{text, word}]; pieces of one word are written as one
// pairs         [{i, j, share, title}] of pieces, the strongest first; an arc is as wide as its share
// isOff(pair)   whether its arc is warm
// enter(pair)   when the pointer comes onto its arc
// exit(pair)    when the pointer leaves it
// pick(pair)    when its arc is clicked
// on            the chosen pair
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

  function draw(room) {
    const { across, ofPieces, ofWords } = middles(pieces, words, room);
    const lengthOf = ({ i, j }) => Math.abs(ofPieces[j] - ofPieces[i]);
    const longest = Math.max(1, ...pairs.map(lengthOf));
    const top = Math.min(HIGHEST, LOWEST + longest * PER_PIXEL);
    const base = px(top + BELOW);

    function arc(pair) {
      const from = px(ofPieces[pair.i]);
      const to = px(ofPieces[pair.j]);
      const rise = (top - ABOVE) * (Math.abs(to - from) / longest) ** FLATTER;
      const control = px(top + BELOW - rise / PEAK);
      return svg("path", {
        d: `M ${from} ${base} C ${from} ${control}, ${to} ${control}, ${to} ${base}`,
        "data-key": `arc:${pair.i},${pair.j}`, "stroke-width": width(pair), opacity: opacity(pair),
        class: classes(pair),
        onmouseenter: () => enter(pair), onmouseleave: () => exit(pair), onclick: () => pick(pair),
      }, svg("title", {}, pair.title));
    }

    const texts = words.map((numbers, w) => svg("text", {
      class: "word", x: ofWords[w], y: top + 26, "text-anchor": "middle",
    }, numbers.map(piece)));
    const label = "arcs between words; the table lists them";
    const all = { class: "arcs", width: across, height: top + 34, role: "img", "aria-label": label };
    const strongestLast = pairs.toReversed(); // above the others
    return svg("svg", all, strongestLast.map(arc), texts);
  }

  return figure(draw, "arcs between words");
}
