// What somebody chose for each photo, and the buttons with which they choose. A label is on, off, or not sure.

const choices = new Map(); // by row; kept after an answer, so that an undone photo looks as it was left

/** Give the choice of a photo: as it was left, or as it is suggested. */
export function choiceOf(card) {
  if (!choices.has(card.row)) {
    choices.set(card.row, { labels: card.labels.slice(), on: new Set(on(card)), unsure: new Set(), touched: false });
  }
  return choices.get(card.row);
}

/** Forget what nobody touched: the suggestions have changed. */
export function forgetSuggestions() {
  for (const [row, choice] of choices) if (!choice.touched) choices.delete(row);
}

export function toggle(card, label) {
  const choice = choiceOf(card);
  choice.touched = true;
  if (choice.unsure.delete(label)) choice.on.delete(label);
  else if (!choice.on.delete(label)) choice.on.add(label);
}

export function toggleUnsure(card, label) {
  const choice = choiceOf(card);
  choice.touched = true;
  choice.on.delete(label);
  if (!choice.unsure.delete(label)) choice.unsure.add(label);
}

/** Put a label on a photo, whether it was shown or not. */
export function put(card, label) {
  const choice = choiceOf(card);
  choice.touched = true;
  if (!choice.labels.some((shown) => shown.label === label)) choice.labels.unshift({ label, score: null, was: null });
  choice.unsure.delete(label);
  choice.on.add(label);
}

export function answerOf(card) {
  const choice = choiceOf(card);
  choice.touched = true;
  return { row: card.row, yes: [...choice.on], unsure: [...choice.unsure] };
}

/** Draw the rows of labels of a photo, with a key for each of the first nine. */
export function drawRows(list, card, onChange) {
  const { labels, on: chosen, unsure } = choiceOf(card);
  const focused = list.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  list.replaceChildren(...labels.map(({ label, score, was }, place) => {
    const item = element("li", "choice");
    item.classList.toggle("unsure", unsure.has(label));
    const tag = button("tag", chosen.has(label), () => onChange(() => toggle(card, label)));
    tag.dataset.label = label;
    tag.dataset.key = `on ${label}`;
    const name = element("span", "name", label);
    if (was !== null && was !== chosen.has(label)) name.append(element("span", "was", was ? "was on" : "was off"));
    const key = element("span", "key", place < 9 ? String(place + 1) : "");
    key.setAttribute("aria-hidden", "true");
    tag.append(key, name, element("span", "value", score === null ? "" : `${Math.round(score * 100)}%`));
    if (score !== null) {
      const bar = element("span", "bar");
      bar.setAttribute("aria-hidden", "true");
      bar.append(element("span", "fill"));
      bar.style.setProperty("--score", score);
      tag.append(bar);
    }
    const doubt = button("doubt", unsure.has(label), () => onChange(() => toggleUnsure(card, label)));
    doubt.textContent = "?";
    doubt.dataset.key = `unsure ${label}`;
    doubt.setAttribute("aria-label", `Not sure about ${label}`);
    item.append(tag, doubt);
    return item;
  }));
  if (focused) list.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
}

/** Draw the labels of a photo as small buttons: all that are on, and the likeliest others. */
export function drawMarks(list, card, onChange, most = 6) {
  const { on: chosen } = choiceOf(card);
  list.replaceChildren(...shownInGrid(card, most).map(({ label }, place) => {
    const mark = button("mark-label", chosen.has(label), () => onChange(() => toggle(card, label)));
    mark.tabIndex = -1; // keys 1 to 9 reach them; Tab goes from photo to photo
    const key = element("span", "key", place < 9 ? String(place + 1) : "");
    key.setAttribute("aria-hidden", "true");
    mark.append(key, label);
    return mark;
  }));
}

export function shownInGrid(card, most = 6) {
  const { labels } = choiceOf(card);
  return labels.filter((shown, place) => place < most || shown.on);
}

function on(card) {
  return card.labels.filter((shown) => shown.on).map((shown) => shown.label);
}

function button(name, pressed, onClick) {
  const made = element("button", name);
  made.type = "button";
  made.setAttribute("aria-pressed", String(pressed));
  made.addEventListener("click", (event) => {
    if (event.detail > 0) made.blur(); // after a click of the mouse, Enter still accepts the photo
    onClick();
  });
  return made;
}

export function element(kind, name = "", text = "") {
  const made = document.createElement(kind);
  made.className = name;
  made.textContent = text;
  return made;
}
