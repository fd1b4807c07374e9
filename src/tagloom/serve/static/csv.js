// The table to download: the columns and the quoting of `tagloom predict --out tags.csv`, which reads it back.

const FORMULA = /^[=+\-@\t\r]/;

function field(text) {
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function label(name) {
  const risky = name.startsWith("[") || FORMULA.test(name) || name !== name.trim() || /["|;,]/.test(name);
  return risky ? `"${name.replaceAll('"', '""')}"` : name;
}

/** Write rows of `{path, tags}` as CSV. */
export function table(rows) {
  const lines = rows.map(({ path, tags }) => [
    FORMULA.test(path) ? `./${path}` : path,
    tags.map((tag) => label(tag.label)).join("|"),
    tags.map((tag) => tag.score.toFixed(4)).join("|"),
  ]);
  return [["image", "labels", "scores"], ...lines].map((line) => line.map(field).join(",") + "\r\n").join("");
}

export function download(name, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
