// The views, in the order of the menu.
import batch from "./batch.js";
import dependence from "./dependence.js";
import fill from "./fill.js";
import generate from "./generate.js";
import mutants from "./mutants.js";
import sample from "./sample.js";
import score from "./score.js";

export const VIEWS = [fill, mutants, dependence, sample, generate, score, batch];
