// The picture, and a heat map over it: dark where a label does not come from, warm where it does.

const $ = (id) => document.getElementById(id);
let address = null;
let drawn = 0;

export function showPicture({ file, path }) {
  if (address) URL.revokeObjectURL(address);
  address = URL.createObjectURL(file);
  const image = $("picture");
  $("frame").classList.remove("no-preview");
  image.onload = () => $("frame").style.setProperty("--ratio", image.naturalWidth / image.naturalHeight);
  image.onerror = () => $("frame").classList.add("no-preview");
  image.src = address;
  image.alt = `The picture ${path}`;
  $("file-name").textContent = path;
  hideHeat();
}

/** Draw a heat map, a greyscale PNG in base64; `text` says whose. */
export async function showHeat(map, text) {
  const mine = ++drawn;
  const image = new Image();
  image.src = `data:image/png;base64,${map}`;
  await image.decode();
  if (mine !== drawn) return; // another one was asked for meanwhile
  const canvas = $("heat");
  [canvas.width, canvas.height] = [image.naturalWidth, image.naturalHeight];
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.drawImage(image, 0, 0);
  const pixels = context.getImageData(0, 0, canvas.width, canvas.height);
  for (let place = 0; place < pixels.data.length; place += 4) {
    pixels.data.set(COLOURS.subarray(pixels.data[place] * 4, pixels.data[place] * 4 + 4), place);
  }
  context.putImageData(pixels, 0, 0);
  canvas.classList.add("on");
  $("caption").textContent = text;
}

export function hideHeat(text = "") {
  drawn++;
  $("heat").classList.remove("on");
  $("caption").textContent = text;
}

/** A colour for each of 256 values: a dark veil that clears towards the middle, then a warm glow. */
const COLOURS = (() => {
  const stops = [[0, 12, 14, 28, 0.62], [0.3, 34, 20, 60, 0.46], [0.55, 190, 60, 60, 0.28], [0.8, 255, 140, 40, 0.38], [1, 255, 214, 90, 0.5]];
  const table = new Uint8ClampedArray(256 * 4);
  for (let value = 0; value < 256; value++) {
    const share = value / 255;
    const above = Math.max(1, stops.findIndex(([at]) => at >= share));
    const [low, high] = [stops[above - 1], stops[above]];
    const part = (share - low[0]) / (high[0] - low[0]);
    for (let channel = 0; channel < 4; channel++) {
      const mixed = low[channel + 1] + part * (high[channel + 1] - low[channel + 1]);
      table[value * 4 + channel] = channel === 3 ? mixed * 255 : mixed;
    }
  }
  return table;
})();
