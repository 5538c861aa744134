// A clock over a growing list of frames: it shows them one after the other, and waits where the next has not come.
export class Player {
  #tick = 0;

  // draw: shows the frame `at`. It is called when the first frame comes, when `at` is set, and when playing begins or
  // ends; `begin` and `stop` do not call it.
  constructor(draw) {
    this.draw = draw;
    this.begin(0);
  }

  // An empty list, which stands still. speed: frames a second
  begin(speed) {
    this.stop();
    this.frames = [];
    this.at = 0;
    this.ended = false; // whether the list has its last frame
    this.speed = speed;
    this.due = 0; // frames to go on by: whole ones are shown, a part of one waits
    this.before = null; // the time of the last tick, in milliseconds; null before the first tick since it plays
  }

  get last() { return this.frames.length - 1; }

  add(frame) {
    this.frames.push(frame);
    if (this.last === 0) this.draw(); // `at` has been 0 from the start, and here is the frame
  }

  play() {
    this.stop(); // else there are two ticks, if it plays already
    const isOver = this.ended && this.at >= this.last;
    if (isOver) this.at = 0; // once more
    this.playing = true;
    this.due = 0;
    this.before = null;
    this.#next();
    this.draw();
  }

  pause() {
    this.stop();
    this.draw();
  }

  go(at) {
    this.at = Math.max(0, Math.min(this.last, at));
    this.draw();
  }

  // Stands still without drawing: `pause` without its picture.
  stop() {
    this.playing = false;
    cancelAnimationFrame(this.#tick);
  }

  #next() { this.#tick = requestAnimationFrame((now) => this.#advance(now)); }

  #advance(now) {
    const steps = this.#stepsDue(now);
    const isAtEnd = this.at === this.last;
    if (steps > 0 && isAtEnd) {
      if (this.ended) {
        this.pause();
        return;
      }
      this.due = 0; // time in which no frame came is not made up for
    } else if (steps > 0) {
      this.due -= steps;
      this.go(this.at + steps);
    }
    this.#next();
  }

  // Frames that are due by now. A hidden tab has no ticks: when it is seen again, all of that time is due at once.
  #stepsDue(now) {
    if (this.before !== null) {
      const seconds = (now - this.before) / 1000;
      this.due += seconds * this.speed;
    }
    this.before = now;
    return Math.floor(this.due);
  }
}
