// Calls of the server. A token comes from the address (behind '#') or from the person, and stays in this tab.

const KEY = "tagloom-token";
const MOST_TRIES = 5;

export class ApiError extends Error {
  constructor(message, code) {
    super(message);
    this.code = code;
  }
}

export function takeTokenFromAddress() {
  const found = new URLSearchParams(location.hash.slice(1)).get("token");
  if (found) {
    sessionStorage.setItem(KEY, found);
    history.replaceState(null, "", location.pathname + location.search);
  }
}

export const models = () => call("/v1/models");

export function predict(picture, { model, labels, scores = false, signal } = {}) {
  return send("/v1/predict", picture, { model, labels, scores: scores || undefined }, signal);
}

export function explain(picture, { model, labels, signal } = {}) {
  return send("/v1/explain", picture, { model, labels }, signal);
}

function send(path, picture, options, signal) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(options)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== undefined) query.append(name, String(one));
    }
  }
  const headers = { "Content-Type": "application/octet-stream" };
  return call(`${path}?${query}`, { method: "POST", body: picture, headers, signal });
}

/** Post JSON, and give the answer. */
export function post(path, content = {}) {
  return call(path, { method: "POST", body: JSON.stringify(content), headers: { "Content-Type": "application/json" } });
}

/** Give an address for a picture of the server: an <img> cannot send a token itself. */
export async function pictureAddress(path) {
  return URL.createObjectURL(await call(path, {}, (response) => response.blob()));
}

export async function call(path, options = {}, read = (response) => response.json()) {
  for (let attempt = 1; ; attempt++) {
    const token = sessionStorage.getItem(KEY);
    const headers = { ...options.headers, ...(token ? { Authorization: `Bearer ${token}` } : {}) };
    let response;
    try {
      response = await fetch(path, { ...options, headers });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new ApiError("The server does not answer. Is it still running?", 0);
    }
    if (response.status === 401) {
      await askForToken(Boolean(token));
    } else if (response.status === 429 && attempt < MOST_TRIES) {
      const seconds = Number(response.headers.get("Retry-After")) || 1;
      await new Promise((done) => setTimeout(done, seconds * 1000));
    } else if (!response.ok) {
      const answer = await response.json().catch(() => ({}));
      throw new ApiError(answer.error ?? `The server answered ${response.status}.`, response.status);
    } else {
      return read(response);
    }
  }
}

let asking = null;

function askForToken(wasWrong) {
  asking ??= new Promise((done) => {
    const dialog = document.getElementById("token-dialog");
    const input = document.getElementById("token");
    if (wasWrong) document.getElementById("token-hint").textContent = "That was not the token of this server.";
    dialog.addEventListener("close", () => {
      sessionStorage.setItem(KEY, input.value.trim());
      input.value = "";
      asking = null;
      done();
    }, { once: true });
    dialog.showModal();
  });
  return asking;
}
