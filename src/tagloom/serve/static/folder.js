// Many pictures at once: a table of their tags, to look at and to download.

import { predict } from "./api.js";
import { download, table } from "./csv.js";
import { likeliest, percent, split } from "./tags.js";

const AT_ONCE = 4; // requests, so that the server can compute several pictures together
const MOST_CHIPS = 8;
const MOST_KEPT = 500; // labels of a picture, so also the most tags of a row in the downloaded table
const $ = (id) => document.getElementById(id);

export class Folder {
  /**
   * @param onOpen Called with a picture when somebody opens it.
   */
  constructor(onOpen) {
    this.onOpen = onOpen;
    this.rows = [];
    this.threshold = null;
    this.run = 0;
    $("download").addEventListener("click", () => {
      const done = this.rows.filter((row) => row.scores).map((row) => ({ path: row.path, tags: this.tagsOf(row) }));
      download("tags.csv", table(done));
    });
    $("folder-stop").addEventListener("click", () => this.stop());
    $("folder-tagger").addEventListener("change", () => {
      this.model = this.models.find((model) => model.name === $("folder-tagger").value);
      this.tag();
    });
  }

  /** Tag pictures with one of the taggers. */
  show(pictures, models) {
    this.models = models;
    this.model = models[0];
    $("folder-tagger").replaceChildren(...models.map((model) => new Option(model.name, model.name)));
    $("folder-tagger-label").hidden = models.length < 2;
    $("folder").hidden = false;
    this.rows = pictures.map((picture) => this.row(picture));
    $("rows").replaceChildren(...this.rows.map((row) => row.element));
    this.tag();
  }

  setThreshold(threshold) {
    this.threshold = threshold;
    for (const row of this.rows) if (row.scores) this.draw(row);
  }

  stop() {
    this.run++;
    $("folder-stop").hidden = true;
    this.count();
  }

  async tag() {
    const mine = ++this.run;
    for (const row of this.rows) Object.assign(row, { scores: null, error: null });
    $("folder-stop").hidden = false;
    const waiting = [...this.rows];
    const work = async () => {
      for (let row = waiting.shift(); row && mine === this.run; row = waiting.shift()) {
        try {
          const answer = await predict(row.file, { model: this.model.name, scores: true });
          if (mine !== this.run) return;
          row.scores = likeliest(answer.results[0].scores, MOST_KEPT);
        } catch (error) {
          if (mine !== this.run) return;
          row.error = error.message;
        }
        this.draw(row);
        this.count();
      }
    };
    this.count();
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    if (mine === this.run) this.stop();
  }

  count() {
    const done = this.rows.filter((row) => row.scores || row.error).length;
    const broken = this.rows.filter((row) => row.error).length;
    $("folder-progress").value = this.rows.length ? done / this.rows.length : 0;
    const faults = broken ? `, ${broken} cannot be read` : "";
    $("folder-count").textContent = `${done - broken} of ${this.rows.length} pictures tagged${faults}`;
    $("download").disabled = done === broken;
  }

  tagsOf(row) {
    return split(row.scores, this.model, this.threshold).tags;
  }

  row({ file, path }) {
    const element = document.createElement("tr");
    const picture = document.createElement("td");
    const open = document.createElement("button");
    open.type = "button";
    open.className = "open";
    const image = document.createElement("img");
    image.alt = "";
    image.loading = "lazy";
    image.width = image.height = 48;
    image.src = URL.createObjectURL(file);
    image.addEventListener("load", () => URL.revokeObjectURL(image.src), { once: true });
    const name = document.createElement("span");
    name.textContent = path;
    open.append(image, name);
    open.addEventListener("click", () => this.onOpen({ file, path }));
    picture.append(open);
    const tags = document.createElement("td");
    element.append(picture, tags);
    return { file, path, element, tags, scores: null, error: null };
  }

  draw(row) {
    if (row.error) {
      const fault = document.createElement("p");
      fault.className = "fault small";
      fault.textContent = row.error;
      row.tags.replaceChildren(fault);
      return;
    }
    const list = document.createElement("ul");
    list.className = "chips";
    for (const tag of this.tagsOf(row).slice(0, MOST_CHIPS)) {
      const item = document.createElement("li");
      const score = document.createElement("span");
      score.className = "score";
      score.textContent = percent(tag.score);
      item.append(tag.label, score);
      list.append(item);
    }
    if (!list.children.length) row.tags.replaceChildren("–");
    else row.tags.replaceChildren(list);
  }
}
