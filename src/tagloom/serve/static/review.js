// The review: the photo at hand, the ones that follow, and the keys.

import { call, pictureAddress, post, takeTokenFromAddress } from "./api.js";
import { answerOf, choiceOf, drawRows, element, forgetSuggestions, put, toggle, toggleUnsure } from "./choices.js";
import { Tiles } from "./tiles.js";

const $ = (id) => document.getElementById(id);
const AHEAD = 24;
const REFILL = 8;
const POLL_MILLISECONDS = 500;
const KEYS = [["Enter", "accept"], ["1–9", "change a label"], ["⇧ 1–9", "not sure"], ["/", "another label"], ["L", "later"], ["U", "undo"], ["G", "grid"], ["R", "retrain"]];
const GRID_KEYS = [["← ↑ → ↓", "choose a photo"], ["Enter", "accept it"], ["1–9", "change a label"], ["A", "accept all shown"], ["U", "undo"], ["G", "one by one"], ["R", "retrain"]];

let state = null;
let queue = []; // cards that wait, the one at hand first
let inGrid = false;
let working = Promise.resolve(); // requests go one after another, while the page is already ahead of them
const addresses = new Map();
const tiles = new Tiles($("tiles"), photo, acceptInGrid);

takeTokenFromAddress();
listen();
await guarded(async () => {
  takeState(await call("/v1/review"));
  await refill(true);
  if (state.retraining.state === "working") watchRetraining();
});

function listen() {
  $("accept").addEventListener("click", accept);
  $("later").addEventListener("click", later);
  for (const id of ["undo", "undo-grid"]) $(id).addEventListener("click", undo);
  $("accept-all").addEventListener("click", acceptAll);
  $("layout").addEventListener("click", () => switchLayout(!inGrid));
  $("retrain").addEventListener("click", retrain);
  $("add").addEventListener("submit", addLabel);
  $("export").addEventListener("click", () => { $("exported").textContent = ""; $("export-dialog").showModal(); });
  $("export-close").addEventListener("click", () => $("export-dialog").close());
  for (const button of document.querySelectorAll("[data-what]")) button.addEventListener("click", () => exportAs(button.dataset.what));
  $("photo").addEventListener("load", () => {
    const { naturalWidth, naturalHeight, parentElement } = $("photo");
    parentElement.style.setProperty("--ratio", naturalWidth / naturalHeight);
  });
  document.addEventListener("keydown", onKey);
}

function onKey(event) {
  if (document.querySelector("dialog[open]") || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.matches("input")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const digit = /^Digit([1-9])$/.exec(event.code)?.[1] ?? /^Numpad([1-9])$/.exec(event.code)?.[1];
  const onButton = event.target.matches("button, a, summary");
  if (digit) chooseByKey(Number(digit) - 1, event.shiftKey);
  else if (event.key === "Enter" && !onButton) inGrid ? tiles.focused && tiles.accept(tiles.focused) : accept();
  else if (event.key === "/" && !inGrid) $("label").focus();
  else if (event.key.toLowerCase() === "l" && !inGrid) later();
  else if (event.key.toLowerCase() === "u" || event.key === "Backspace") undo();
  else if (event.key.toLowerCase() === "g") switchLayout(!inGrid);
  else if (event.key.toLowerCase() === "a" && inGrid) acceptAll();
  else if (event.key.toLowerCase() === "r") retrain();
  else return;
  event.preventDefault();
}

function chooseByKey(place, unsure) {
  if (inGrid) {
    if (tiles.focused) tiles.toggleKey(tiles.focused, place);
    return;
  }
  const label = queue.length && choiceOf(queue[0]).labels[place]?.label;
  if (label) change(() => (unsure ? toggleUnsure : toggle)(queue[0], label));
}

function change(how) {
  how();
  drawRows($("labels"), queue[0], change);
}

function accept() {
  if (!queue.length) return;
  const card = queue.shift();
  send("/v1/review/answers", answerOf(card));
  draw();
  refillSoon();
}

function later() {
  if (!queue.length) return;
  const card = queue.shift();
  send("/v1/review/skip", { row: card.row });
  draw();
  refillSoon();
}

function acceptInGrid(card) {
  send("/v1/review/answers", answerOf(card));
  queue = queue.filter((each) => each.row !== card.row);
  if (!tiles.waiting.length) inTurn(() => refill(true));
}

function acceptAll() {
  for (const card of tiles.waiting) tiles.accept(card);
}

function undo() {
  inTurn(async () => {
    const answer = await post("/v1/review/undo");
    takeState(answer);
    if (answer.row === null) say("There is nothing to undo.");
    else if (inGrid && tiles.undone(answer.row)) return;
    else await refill(true);
  });
}

async function addLabel(event) {
  event.preventDefault();
  const typed = $("label").value.trim();
  const card = queue[0];
  if (!typed || !card) return;
  inTurn(async () => {
    const answer = await post("/v1/review/labels", { label: typed });
    takeState(answer);
    put(card, answer.label);
    $("label").value = "";
    $("label").blur();
    draw();
  });
}

function retrain() {
  inTurn(async () => {
    takeState(await post("/v1/review/retrain"));
    watchRetraining();
  });
}

async function watchRetraining() {
  const { round } = state.retraining;
  while (state.retraining.state === "working") {
    await new Promise((done) => setTimeout(done, POLL_MILLISECONDS));
    await guarded(async () => takeState(await call("/v1/review")));
    if (!$("problem").hidden) return;
  }
  if (state.retraining.round > round) {
    forgetSuggestions();
    await inTurn(() => refill(true));
    say(state.retraining.message);
  } else {
    problem(state.retraining.message);
  }
}

function exportAs(what) {
  $("exported").textContent = "Writing …";
  working = working.then(() => post("/v1/review/export", { what })).then(
    ({ message }) => { $("exported").textContent = message; },
    (error) => { $("exported").textContent = error.message; },
  );
}

function switchLayout(grid) {
  inGrid = grid;
  $("layout").textContent = grid ? "One by one" : "Grid";
  inTurn(() => refill(true));
}

/** Ask for the photos that come next: from the start, or more of them. */
async function refill(afresh) {
  const { photos } = await call(`/v1/review/next?count=${AHEAD}`);
  const here = new Set(afresh ? [] : queue.map((card) => card.row));
  queue = [...(afresh ? [] : queue), ...photos.filter((card) => !here.has(card.row))];
  if (afresh) draw(); // else the photo at hand stays as it is
}

function refillSoon() {
  if (queue.length < REFILL) inTurn(async () => { await refill(false); if ($("one").hidden && !inGrid) draw(); });
  for (const card of queue.slice(0, 3)) photo(card.row, 1600).catch(() => {});
}

function draw() {
  const keys = inGrid ? GRID_KEYS : KEYS;
  $("keys").replaceChildren(...keys.map(([key, what]) => {
    const entry = element("span");
    entry.append(element("kbd", "", key), ` ${what}`);
    return entry;
  }));
  $("one").hidden = inGrid || !queue.length;
  $("grid").hidden = !inGrid || !queue.length;
  $("finished").hidden = queue.length > 0 || state.answered < state.photos;
  if (!queue.length) return;
  if (inGrid) tiles.show(queue.slice(0, 12));
  else drawOne(queue[0]);
}

function drawOne(card) {
  $("name").textContent = card.name;
  $("photo").alt = card.name;
  $("photo").removeAttribute("src");
  photo(card.row, 1600).then(
    (address) => { if (queue[0] === card) $("photo").src = address; },
    (error) => { if (queue[0] === card) problem(`${card.name}: ${error.message}`); },
  );
  drawRows($("labels"), card, change);
  for (const next of queue.slice(1, 3)) photo(next.row, 1600).catch(() => {});
}

/** Give the address of a photo's picture; the last ones are kept. */
function photo(row, side) {
  const key = `${row} ${side}`;
  if (!addresses.has(key)) {
    const address = pictureAddress(`/v1/review/photos/${row}?side=${side}`);
    address.catch(() => addresses.delete(key));
    addresses.set(key, address);
    if (addresses.size > 80) {
      const [oldest, old] = addresses.entries().next().value;
      addresses.delete(oldest);
      old.then((url) => URL.revokeObjectURL(url), () => {});
    }
  }
  return addresses.get(key);
}

function send(path, content) {
  say("");
  inTurn(async () => takeState(await post(path, content)));
}

function inTurn(work) {
  working = working.then(() => guarded(work));
  return working;
}

async function guarded(work) {
  try {
    await work();
    problem("");
  } catch (error) {
    problem(error.message);
  }
}

function takeState(found) {
  state = found;
  const { state: doing, done, total } = state.retraining;
  $("count").textContent = `${state.answered.toLocaleString("en")} of ${state.photos.toLocaleString("en")} reviewed`;
  $("progress").max = Math.max(1, state.photos);
  $("progress").value = state.answered;
  const isWorking = doing === "working";
  $("retrain").setAttribute("aria-busy", String(isWorking));
  $("retrain").textContent = !isWorking ? "Retrain" : total && done < total ? `Reading ${Math.floor((100 * done) / total)}%` : "Learning …";
  $("known").replaceChildren(...state.classes.map((name) => { const option = element("option"); option.value = name; return option; }));
}

function say(text) {
  $("said").textContent = text;
  $("said").hidden = !text;
}

function problem(text) {
  $("problem").textContent = text;
  $("problem").hidden = !text;
}
