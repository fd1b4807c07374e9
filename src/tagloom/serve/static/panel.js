// The tags of one tagger, with bars. Pointing at a tag, or moving the focus to it, shows where it comes from.

import { ApiError, explain, predict } from "./api.js";
import { hideHeat, showHeat } from "./stage.js";
import { percent, split } from "./tags.js";

const MOST_LESS_LIKELY = 12;
const MOST_TAGS = 100; // drawn; a low threshold makes tags of thousands of labels
const MOST_HEATS = 24; // asked for before anybody points at a tag

export class Panel {
  /**
   * @param model What the server says of the tagger.
   * @param limits What the server accepts.
   * @param onPin Called with this panel when a tag of it is pinned, so that others let go of theirs.
   */
  constructor(model, limits, onPin) {
    this.model = model;
    this.limits = limits;
    this.onPin = onPin;
    this.picture = null;
    this.scores = null;
    this.threshold = null;
    this.typed = new Map();
    this.wanted = []; // labels that somebody typed
    this.heats = new Map(); // a promise for each label
    this.pinned = null;
    this.element = document.getElementById("panel-template").content.firstElementChild.cloneNode(true);
    this.find("h2").textContent = model.name;
    this.find(".about").textContent = `${model.classes.length.toLocaleString()} labels · ${model.head}`;
    this.find(".add").hidden = !model.takes_words;
    this.find(".add").addEventListener("submit", (event) => this.addLabel(event));
    this.find(".search").hidden = model.classes.length <= MOST_LESS_LIKELY;
    this.find(".search input").addEventListener("input", () => this.scores && this.draw());
  }

  find(selector) {
    return this.element.querySelector(selector);
  }

  /** Tag a picture. Rejects with what the server says of it. */
  async show(picture) {
    this.abort?.abort();
    this.abort = new AbortController();
    const { signal } = this.abort;
    Object.assign(this, { picture, scores: null, typed: new Map(), heats: new Map(), pinned: null });
    this.element.classList.add("waiting");
    try {
      const options = { model: this.model.name, scores: true, signal };
      const [own, typed] = await Promise.all([predict(picture, options), this.scoreTyped(signal)]);
      this.scores = own.results[0].scores;
      this.typed = typed;
    } finally {
      this.element.classList.remove("waiting");
    }
    this.draw(false);
    if (this.model.methods.length) this.fetchHeats(this.found.tags.slice(0, MOST_HEATS).map((tag) => tag.label));
    return this.found.tags;
  }

  async scoreTyped(signal) {
    if (!this.wanted.length) return new Map();
    const answer = await predict(this.picture, { model: this.model.name, labels: this.wanted, scores: true, signal });
    return new Map(Object.entries(answer.results[0].scores));
  }

  setThreshold(threshold) {
    this.threshold = threshold;
    if (this.scores) this.draw();
  }

  get found() {
    return split(this.scores, this.model, this.threshold, this.typed);
  }

  /** Draw the tags; what had the focus keeps it, unless the picture is a new one. */
  draw(keepsFocus = true) {
    const { tags, rest } = this.found;
    const focused = keepsFocus && this.element.contains(document.activeElement) ? document.activeElement.dataset.label : null;
    this.find(".tags").replaceChildren(...tags.slice(0, MOST_TAGS).map((tag) => this.row(tag)));
    this.find(".more").hidden = tags.length <= MOST_TAGS;
    this.find(".more").textContent = `and ${(tags.length - MOST_TAGS).toLocaleString()} more tags`;
    const wanted = this.find(".search input").value.trim().toLowerCase();
    const matching = wanted ? rest.filter((tag) => tag.label.toLowerCase().includes(wanted)) : rest;
    const unlikely = matching.filter((tag, place) => place < MOST_LESS_LIKELY || this.typed.has(tag.label));
    this.find(".rest").replaceChildren(...unlikely.map((tag) => this.row(tag)));
    this.find(".none").hidden = tags.length > 0;
    this.find("details").hidden = rest.length === 0;
    if (focused) this.element.querySelector(`[data-label="${CSS.escape(focused)}"]`)?.focus();
  }

  row({ label, score, limit, isNew }) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "tag";
    button.dataset.label = label;
    button.setAttribute("aria-pressed", String(this.pinned === label));
    button.title = `Threshold ${limit.toFixed(2)}`;
    const name = part("name", label);
    if (isNew) name.append(part("new", "new"));
    const bar = part("bar", "");
    bar.setAttribute("aria-hidden", "true");
    bar.append(part("fill", ""), part("mark", ""));
    bar.style.setProperty("--score", score);
    bar.style.setProperty("--limit", limit);
    button.append(name, part("value", percent(score)), bar);
    button.addEventListener("pointerenter", (event) => event.pointerType === "mouse" && this.preview(label));
    button.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && this.restore());
    button.addEventListener("focus", () => this.preview(label));
    button.addEventListener("blur", () => this.restore());
    button.addEventListener("click", () => this.pin(this.pinned === label ? null : label));
    const item = document.createElement("li");
    item.append(button);
    return item;
  }

  pin(label) {
    this.pinned = label;
    for (const button of this.element.querySelectorAll(".tag")) {
      button.setAttribute("aria-pressed", String(button.dataset.label === label));
    }
    if (label === null) {
      hideHeat();
    } else {
      this.onPin(this);
      this.preview(label);
    }
  }

  restore() {
    this.shown = null;
    if (this.pinned === null) hideHeat();
    else this.preview(this.pinned);
  }

  async preview(label) {
    this.shown = label;
    if (!this.heats.has(label)) this.fetchHeats([label]);
    const waiting = setTimeout(() => this.shown === label && hideHeat(`Looking for ${label} …`), 150);
    try {
      const heat = await this.heats.get(label);
      if (this.shown === label) await showHeat(heat.map, `Where ${label} comes from (${heat.method})`);
    } catch (error) {
      if (this.shown === label && error.name !== "AbortError") hideHeat(error.message);
    } finally {
      clearTimeout(waiting);
    }
  }

  /** Ask for heat maps, as many at a time as the server draws; most are here before anybody points at a tag. */
  fetchHeats(labels) {
    const missing = labels.filter((label) => !this.heats.has(label));
    for (let first = 0; first < missing.length; first += this.limits.explained) {
      const some = missing.slice(first, first + this.limits.explained);
      const { heats } = this; // of this picture
      const asked = explain(this.picture, { model: this.model.name, labels: some, signal: this.abort.signal });
      for (const label of some) {
        const heat = asked.then(({ labels: found, method }) => {
          const one = found.find((each) => each.label === label);
          if (!one) throw new ApiError(`There is no heat map of ${label}.`, 0);
          return { map: one.map, method };
        });
        heat.catch(() => heats.delete(label)); // so that it is asked for again
        heats.set(label, heat);
      }
    }
  }

  async addLabel(event) {
    event.preventDefault();
    const input = this.find(".add input");
    const fault = this.find(".fault");
    const label = input.value.trim();
    fault.hidden = true;
    if (!label || !this.picture) return;
    const before = this.wanted;
    this.wanted = [...new Set([...before, label])];
    try {
      this.typed = await this.scoreTyped(this.abort.signal);
      input.value = "";
      this.draw();
      const there = this.element.querySelector(`[data-label="${CSS.escape(label)}"]`);
      if (there?.closest(".rest")) this.find("details").open = true;
      this.find(".add input").focus();
      this.announce?.(`${label}: ${percent(this.typed.get(label))}`);
    } catch (error) {
      this.wanted = before;
      if (error.name === "AbortError") return;
      fault.textContent = error.message;
      fault.hidden = false;
    }
  }
}

function part(name, text) {
  const element = document.createElement("span");
  element.className = name;
  element.textContent = text;
  return element;
}
