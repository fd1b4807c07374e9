// The grid: a page of photos, each with its labels. Answered ones stay where they are until the page is done.

import { choiceOf, drawMarks, element, shownInGrid, toggle } from "./choices.js";

export class Tiles {
  /**
   * @param list The element that holds the tiles.
   * @param photo Gives the address of a photo's picture.
   * @param onAccept Called with a card that is accepted.
   */
  constructor(list, photo, onAccept) {
    Object.assign(this, { list, photo, onAccept, cards: [], done: new Set() });
    list.addEventListener("keydown", (event) => this.move(event));
  }

  show(cards) {
    this.cards = cards;
    this.done = new Set();
    this.list.replaceChildren(...cards.map((card, place) => this.tile(card, place)));
    this.list.firstElementChild?.focus({ preventScroll: true });
  }

  get waiting() {
    return this.cards.filter((card) => !this.done.has(card.row));
  }

  get focused() {
    const tile = document.activeElement?.closest?.(".tile");
    return this.cards.find((card) => String(card.row) === tile?.dataset.row);
  }

  find(card) {
    return this.list.querySelector(`[data-row="${card.row}"]`);
  }

  tile(card, place) {
    const tile = element("li", "tile");
    tile.tabIndex = place ? -1 : 0;
    tile.dataset.row = card.row;
    tile.addEventListener("focusin", () => {
      for (const other of this.list.children) other.tabIndex = other === tile ? 0 : -1;
    });
    const image = document.createElement("img");
    image.alt = card.name;
    this.photo(card.row, 480).then((address) => { image.src = address; }, () => {});
    const take = element("button", "take", "Accept");
    take.type = "button";
    take.tabIndex = -1;
    take.addEventListener("click", () => this.accept(card));
    tile.append(image, element("div", "marks"), take);
    this.draw(card, tile);
    return tile;
  }

  draw(card, tile = this.find(card)) {
    if (!tile) return;
    drawMarks(tile.querySelector(".marks"), card, (change) => this.change(card, change));
    const named = [...choiceOf(card).on].join(", ") || "no label";
    const done = this.done.has(card.row);
    tile.classList.toggle("done", done);
    tile.setAttribute("aria-label", `${card.name}: ${named}${done ? ", accepted" : ""}`);
    tile.querySelector(".take").textContent = done ? "Accepted" : "Accept";
  }

  change(card, change) {
    change();
    this.done.delete(card.row); // it has to be accepted again
    this.draw(card);
    this.find(card).focus();
  }

  accept(card) {
    this.done.add(card.row);
    this.draw(card);
    const next = this.waiting[0];
    this.onAccept(card);
    if (next) this.find(next)?.focus();
  }

  undone(row) {
    const card = this.cards.find((each) => each.row === row);
    if (!card) return false;
    this.done.delete(row);
    this.draw(card);
    this.find(card).focus();
    return true;
  }

  toggleKey(card, place) {
    const shown = shownInGrid(card)[place];
    if (shown) this.change(card, () => toggle(card, shown.label));
  }

  move(event) {
    const tile = event.target.closest(".tile");
    const columns = getComputedStyle(this.list).gridTemplateColumns.split(" ").length;
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns }[event.key];
    const next = tile && step && this.list.children[[...this.list.children].indexOf(tile) + step];
    if (!next) return;
    event.preventDefault();
    next.focus();
  }
}
