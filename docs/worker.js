/* Search from file://: a browser starts no Worker for a page that was opened from a disk, so a hidden frame plays one. */
if (location.protocol === "file:") {
  window.Worker = class FrameWorker extends EventTarget {
    constructor(url) {
      super();
      this.onmessage = this.onerror = this.onmessageerror = null;
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.srcdoc =
        "<script>onload = () => parent.postMessage('up', '*');" +
        "postMessage = (data) => parent.postMessage({ from: 'worker', data }, '*');</script>" +
        `<script src="${new URL(url, document.baseURI)}"></script>`;
      this.frame = frame;
      this.waiting = [];
      this.hear = (event) => {
        if (event.source !== frame.contentWindow) return;
        event.stopImmediatePropagation();
        if (event.data === "up") {
          const waiting = this.waiting;
          this.waiting = null;
          waiting.forEach((data) => this.postMessage(data));
        } else {
          const told = new MessageEvent("message", { data: event.data.data });
          this.dispatchEvent(told);
          if (this.onmessage) this.onmessage(told);
        }
      };
      addEventListener("message", this.hear);
      document.body.appendChild(frame);
    }
    postMessage(data) {
      if (this.waiting) this.waiting.push(data);
      else this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }));
    }
    terminate() {
      removeEventListener("message", this.hear);
      this.frame.remove();
    }
  };
}
