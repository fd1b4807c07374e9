/* Browsers start no Web Worker from a file:// page, so search would be dead in a site opened from the disk. There a
   hidden frame plays the worker: it loads the worker's script and passes messages on. Over http nothing changes. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.appendChild(frame);
      this.inside = frame.contentWindow;
      this.ready = new Promise((resolve) => { window.addEventListener("message", (event) => {
        if (event.source !== this.inside) return;
        if (event.data === "iframe-worker: ready") return resolve();
        const message = new MessageEvent("message", { data: event.data });
        this.dispatchEvent(message);
        if (this.onmessage) this.onmessage(message);
      }); });
      // Scripts of a frame load one after the other, as importScripts does, but it can only promise to have done so.
      this.inside.document.open();
      this.inside.document.write(`<!doctype html><body><script>
        window.postMessage = (data) => parent.postMessage(data, "*");
        window.importScripts = (...urls) => urls.reduce((before, url) => before.then(() => new Promise((done, fail) => {
          const script = document.createElement("script");
          script.src = url; script.onload = done; script.onerror = fail;
          document.body.appendChild(script);
        })), Promise.resolve());
      <\/script><script src="${url}"><\/script><script>parent.postMessage("iframe-worker: ready", "*")<\/script></body>`);
      this.inside.document.close();
    }
    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })));
    }
    terminate() {}
  };
}
