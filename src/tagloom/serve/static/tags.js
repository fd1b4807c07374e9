// Scores to tags, as the tagger itself does it.

/**
 * Split the labels of a picture into tags and the rest, both best first.
 * `threshold` is a number from 0 to 1, or null for each label's own; a tagger of one label per picture then gives its best.
 */
export function split(scores, model, threshold, typed = new Map()) {
  const { own, usual } = limitsOf(model);
  const all = [...new Map([...Object.entries(scores), ...typed])].map(([label, score]) => ({
    label,
    score,
    limit: threshold ?? own.get(label) ?? usual,
    isNew: typed.has(label) && !own.has(label),
  }));
  all.sort((a, b) => b.score - a.score);
  const single = model.task === "single" && threshold === null;
  const isTag = (tag, place) => (single ? place === 0 : tag.score > tag.limit);
  return { tags: all.filter(isTag), rest: all.filter((tag, place) => !isTag(tag, place)) };
}

/** Keep the likeliest labels of a picture: a folder of pictures with thousands of labels each would fill the memory. */
export function likeliest(scores, most) {
  const entries = Object.entries(scores);
  if (entries.length <= most) return scores;
  return Object.fromEntries(entries.sort((a, b) => b[1] - a[1]).slice(0, most));
}

const limits = new WeakMap(); // by model: with thousands of labels, too much to do again for every picture

function limitsOf(model) {
  if (!limits.has(model)) {
    const own = new Map(model.classes.map((label, column) => [label, model.thresholds[column]]));
    limits.set(model, { own, usual: median(model.thresholds) });
  }
  return limits.get(model);
}

function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

export const percent = (score) => `${Math.round(score * 100)}%`;
