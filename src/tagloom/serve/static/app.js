// The page: a picture in, tags out.

import { models, takeTokenFromAddress } from "./api.js";
import { Folder } from "./folder.js";
import { listen } from "./intake.js";
import { Panel } from "./panel.js";
import { showPicture } from "./stage.js";

const $ = (id) => document.getElementById(id);

takeTokenFromAddress();
const { models: known, limits } = await models().catch((error) => {
  problem(error.message);
  throw error;
});

const panels = known.map((model) => new Panel(model, limits, letOthersGo));
const folder = new Folder(open);
let current = null;

for (const panel of panels) panel.announce = (text) => { $("status").textContent = text; };
chooseTaggers();
arrange();
listen((pictures, isFolder) => {
  problem("");
  if (!pictures.length) problem("There is no picture in this folder.");
  else if (isFolder || pictures.length > 1) folder.show(pictures, known);
  if (pictures.length) open(pictures[0]);
});

$("threshold").addEventListener("input", () => setThreshold(Number($("threshold").value) / 100));
$("threshold-own").addEventListener("click", () => {
  setThreshold(null);
  $("threshold").focus();
});
setThreshold(null);

async function open(picture) {
  current = picture;
  document.body.classList.add("has-work");
  $("work").hidden = false;
  showPicture(picture);
  problem("");
  $("status").textContent = "Tagging …";
  const shown = panels.filter((panel) => panel.element.isConnected);
  const results = await Promise.allSettled(shown.map((panel) => panel.show(picture.file)));
  if (current !== picture) return;
  const fault = results.find((result) => result.status === "rejected" && result.reason.name !== "AbortError");
  if (fault) {
    $("work").hidden = true;
    problem(`${picture.path}: ${fault.reason.message.replace(/^the picture: /, "")}`); // it has a name here
    $("status").textContent = "";
    return;
  }
  const said = shown.map((panel, place) => sentence(panel, results[place].value ?? []));
  $("status").textContent = said.join(" ");
}

function sentence(panel, tags) {
  const named = tags.map((tag) => tag.label).join(", ") || "no tag";
  return `${panels.length > 1 ? `${panel.model.name}: ` : ""}${named}.`;
}

function setThreshold(threshold) {
  const text = threshold === null ? "each label’s own" : threshold.toFixed(2);
  $("threshold-value").textContent = text;
  $("threshold").setAttribute("aria-valuetext", text);
  $("threshold-own").disabled = threshold === null;
  for (const panel of panels) panel.setThreshold(threshold);
  folder.setThreshold(threshold);
}

function letOthersGo(pinned) {
  for (const panel of panels) if (panel !== pinned && panel.pinned !== null) panel.pin(null);
}

function chooseTaggers() {
  if (panels.length < 2) return;
  $("taggers").hidden = false;
  for (const panel of panels) {
    const label = document.createElement("label");
    const box = document.createElement("input");
    box.type = "checkbox";
    box.checked = true;
    box.addEventListener("change", () => {
      panel.off = !box.checked;
      arrange();
      if (!panel.off && current) panel.show(current.file).catch((error) => problem(error.message));
    });
    label.append(box, panel.model.name);
    $("taggers").append(label);
  }
}

function arrange() {
  const on = panels.filter((panel) => !panel.off);
  $("panels").replaceChildren(...on.map((panel) => panel.element));
  $("work").classList.toggle("wide", on.length > 1);
}

function problem(text) {
  $("problem").textContent = text;
  $("problem").hidden = !text;
}
