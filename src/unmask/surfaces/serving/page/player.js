// A chain's run as frames that can be played, paused and scrubbed while more of them arrive.
export class Player {
  constructor(draw) {
    Object.assign(this, { frames: [], at: 0, playing: false, speed: 8, draw, carry: 0, before: null });
  }
  add(frame) {
    this.frames.push(frame);
    if (this.frames.length === 1) this.draw();
  }
  play() {
    if (this.at >= this.frames.length - 1 && this.ended) this.at = 0;
    this.playing = true;
    this.before = null;
    this.#tick = requestAnimationFrame((now) => this.#advance(now));
    this.draw();
  }
  pause() {
    this.playing = false;
    cancelAnimationFrame(this.#tick);
    this.draw();
  }
  go(at) {
    this.at = Math.max(0, Math.min(this.frames.length - 1, at));
    this.draw();
  }
  stop() {
    this.playing = false;
    cancelAnimationFrame(this.#tick);
  }
  #tick = 0;
  #advance(now) {
    if (!this.playing) return;
    this.carry += this.before === null ? 0 : ((now - this.before) / 1000) * this.speed;
    this.before = now;
    const steps = Math.floor(this.carry);
    const room = this.frames.length - 1 - this.at;
    if (steps > 0) {
      this.carry = room ? this.carry - steps : 0;
      if (room) { this.at += Math.min(steps, room); this.draw(); }
      else if (this.ended) { this.pause(); return; }
    }
    this.#tick = requestAnimationFrame((next) => this.#advance(next));
  }
}
