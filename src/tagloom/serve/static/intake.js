// The ways in which pictures come: dropped, pasted, chosen or photographed.

const IMAGE_NAME = /\.(jpe?g|jpe|jfif|png|webp|gif|bmp|tiff?|mpo)$/i;
const $ = (id) => document.getElementById(id);

/** Call `take` with a list of `{file, path}` whenever somebody gives pictures. */
export function listen(take) {
  const taken = (files, isFolder) => {
    const list = [...files].map((file) => ({ file, path: file.webkitRelativePath || file.name }));
    const kept = isFolder ? list.filter(({ path }) => IMAGE_NAME.test(path) && !/(^|\/)\./.test(path)) : list;
    kept.sort((a, b) => a.path.localeCompare(b.path, undefined, { numeric: true }));
    if (list.length) take(kept, isFolder);
  };

  for (const [button, input, isFolder] of [["choose", "file", false], ["choose-folder", "folder-file", true]]) {
    $(button).addEventListener("click", () => $(input).click());
    $(input).addEventListener("change", () => {
      taken($(input).files, isFolder);
      $(input).value = "";
    });
  }
  listenForCamera((file) => taken([file], false));

  document.addEventListener("paste", (event) => {
    const files = [...(event.clipboardData?.files ?? [])];
    if (files.length) {
      event.preventDefault();
      taken(files, false);
    }
  });

  listenForDrops(taken);
}

function listenForDrops(taken) {
  let depth = 0; // dragenter and dragleave also come for the elements within
  const carriesFiles = (event) => event.dataTransfer?.types.includes("Files");
  addEventListener("dragenter", (event) => {
    if (carriesFiles(event)) $("drop-here").hidden = ++depth === 0;
  });
  addEventListener("dragleave", (event) => {
    if (carriesFiles(event) && --depth <= 0) {
      depth = 0;
      $("drop-here").hidden = true;
    }
  });
  addEventListener("dragover", (event) => {
    if (carriesFiles(event)) event.preventDefault();
  });
  addEventListener("drop", async (event) => {
    if (!carriesFiles(event)) return;
    event.preventDefault();
    depth = 0;
    $("drop-here").hidden = true;
    const files = [...event.dataTransfer.files];
    const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
    if (entries.some((entry) => entry.isDirectory)) {
      taken((await Promise.all(entries.map((entry) => filesOf(entry, "")))).flat(), true);
    } else {
      taken(files, false);
    }
  });
}

/** List the files of a dropped folder, each with its path. */
async function filesOf(entry, above) {
  const path = above + entry.name;
  if (entry.isFile) {
    const file = await new Promise((done, fail) => entry.file(done, fail));
    Object.defineProperty(file, "webkitRelativePath", { value: path });
    return [file];
  }
  const reader = entry.createReader();
  const found = [];
  for (;;) { // a reader gives a hundred at a time
    const some = await new Promise((done, fail) => reader.readEntries(done, fail));
    if (!some.length) break;
    found.push(...(await Promise.all(some.map((inside) => filesOf(inside, `${path}/`)))).flat());
  }
  return found;
}

function listenForCamera(taken) {
  const dialog = $("camera");
  const video = $("video");
  const stop = () => {
    for (const track of video.srcObject?.getTracks() ?? []) track.stop();
    video.srcObject = null;
  };
  $("shoot").addEventListener("click", async () => {
    if (!navigator.mediaDevices?.getUserMedia || matchMedia("(pointer: coarse)").matches) {
      $("camera-file").click(); // a phone's own camera takes better photos
      return;
    }
    try {
      video.srcObject = await navigator.mediaDevices.getUserMedia({ video: { width: { ideal: 1280 } } });
      dialog.showModal();
    } catch {
      $("camera-file").click();
    }
  });
  $("camera-file").addEventListener("change", () => {
    if ($("camera-file").files.length) taken($("camera-file").files[0]);
    $("camera-file").value = "";
  });
  $("snap").addEventListener("click", () => {
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [video.videoWidth, video.videoHeight];
    canvas.getContext("2d").drawImage(video, 0, 0);
    canvas.toBlob((blob) => {
      if (blob) taken(new File([blob], "photo.jpg", { type: "image/jpeg" }));
    }, "image/jpeg", 0.92);
    dialog.close();
  });
  $("camera-close").addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", stop);
}
