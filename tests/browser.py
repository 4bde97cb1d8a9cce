"""A real headless Chromium, driven over its DevTools protocol: all that tests of pages need."""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
import subprocess
import tempfile
from pathlib import Path

from tornado.websocket import websocket_connect

_FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
]
_MOST_BYTES = 64 * 2**20  # of one answer; a screenshot of a long page is large


# Whatever sticks out of the window, unless it lies in a box that scrolls by itself.
STICKS_OUT = """
Array.from(document.querySelectorAll("body *")).filter(e => {
  const aside = ".plot, .scroll, .sideways, pre, .skip, .away";
  const box = e.getBoundingClientRect();
  if (e.closest(aside) !== e && e.closest(aside)) return false;
  return box.width > 0 && !e.matches(".skip, .away") &&
    (box.right > innerWidth + 1 || box.left < -1);
}).map(e => e.outerHTML.slice(0, 120))
"""

# The contrast of the text of each element with the first background behind it (WCAG 2).
CONTRAST = """
(() => {
  const parse = c => c.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = e => {
    for (; e; e = e.parentElement) {
      const c = parse(getComputedStyle(e).backgroundColor);
      if (c.length < 4 || c[3] > 0) return c;
    }
    return [255, 255, 255];
  };
  const worst = {};
  for (const e of document.querySelectorAll(
      "h1, h2, h3, p, a, dd, dt, li, small, button, td, caption span, figcaption, label, output, " +
      "input")) {
    if (!e.checkVisibility()) continue;
    const pair = [light(parse(getComputedStyle(e).color)), light(behind(e))].sort((a, b) => b - a);
    const ratio = (pair[0] + 0.05) / (pair[1] + 0.05);
    worst[e.tagName] = Math.min(worst[e.tagName] ?? 99, ratio);
  }
  return worst;
})()
"""


def find():
    """Return the browser's program, or None where there is none."""
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    return next(filter(None, map(shutil.which, names)), None)


class Browser:
    """One page of a browser of its own, which ends with the block."""

    def __enter__(self):
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self._loop = asyncio.new_event_loop()
        self._process = subprocess.Popen(
            [find(), *_FLAGS, f"--user-data-dir={self._folder.name}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            self._loop.run_until_complete(asyncio.wait_for(self._connect(), 60))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error):
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._loop.close()
        self._folder.cleanup()

    async def _connect(self):
        port_file = Path(self._folder.name, "DevToolsActivePort")
        while not (port_file.exists() and port_file.read_text().count("\n") >= 1):
            assert self._process.poll() is None, "the browser ended"
            await asyncio.sleep(0.05)
        port, path = port_file.read_text().split("\n")[:2]
        url = f"ws://127.0.0.1:{port}{path}"
        self._socket = await websocket_connect(url, max_message_size=_MOST_BYTES)
        self._number, self._session, self.events = 0, None, []
        target = (await self._send("Target.createTarget", url="about:blank"))["targetId"]
        attached = await self._send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            await self._send(f"{domain}.enable")

    async def _send(self, method, **parameters):
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        await self._socket.write_message(json.dumps(message))
        while True:
            answer = json.loads(await self._socket.read_message())
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]
            self.events.append(answer)
            if answer.get("method") == "Page.javascriptDialogOpening":
                # A page stands still until its dialog is closed; the answer to this is not awaited.
                close = {"id": -1, "method": "Page.handleJavaScriptDialog",
                         "params": {"accept": True}, "sessionId": self._session}  # fmt: skip
                await self._socket.write_message(json.dumps(close))

    def call(self, method, **parameters):
        """Call a method of the protocol and return its result."""
        return self._loop.run_until_complete(asyncio.wait_for(self._send(method, **parameters), 60))

    def open(self, path, width=1400, height=900, dark=False, wait_for_images=True):
        """Open a file at a width in CSS pixels and wait until it is whole."""
        self.events.clear()
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", media="screen", features=scheme)
        self.call("Page.navigate", url=Path(path).resolve().as_uri())
        self.run("new Promise(done => document.readyState === 'complete' ? done() :"
                 " addEventListener('load', () => done()))")  # fmt: skip
        if wait_for_images:  # which waits in vain where one of them cannot be had
            self.run("Promise.all(Array.from(document.images, image => image.decode()))")

    def run(self, script):
        """Return the value of an expression in the page; a promise is waited for."""
        answer = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def complaints(self):
        """Return errors and warnings of the console, dialogs, and requests for anything outside."""
        found = []
        for event in self.events:
            method, about = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                found.append(about["exceptionDetails"])
            elif method == "Page.javascriptDialogOpening":
                found.append(("dialog", about["message"]))
            elif method == "Runtime.consoleAPICalled" and about["type"] in ("error", "warning"):
                found.append(about["args"])
            elif method == "Log.entryAdded" and about["entry"]["level"] in ("error", "warning"):
                found.append(about["entry"])
            elif method == "Network.requestWillBeSent":
                url = about["request"]["url"]
                if not url.startswith(("file:", "data:", "about:", "blob:")):
                    found.append(url)
        return found

    def click(self, x, y):
        """Click with the mouse at a place in the window."""
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def wait(self, condition):
        """Wait until an expression in the page is true; fail after a while."""
        assert self.run(
            f"""new Promise(done => {{
              const end = performance.now() + 20000;
              const look = () => ({condition}) ? done(true)
                : performance.now() > end ? done(false) : setTimeout(look, 10);
              look();
            }})"""
        ), f"never true: {condition}"

    def press(self, key, code=None, text=None):
        """Press and let go of a key."""
        for kind in ("keyDown", "keyUp"):
            extra = {"text": text} if text and kind == "keyDown" else {}
            self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code or 0,
                **extra,
            )  # fmt: skip

    def type(self, text):
        """Type into what has the focus."""
        self.call("Input.insertText", text=text)

    def screenshot(self, path, whole=True):
        """Write a picture of the page, or of what is in view."""
        answer = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        Path(path).write_bytes(base64.b64decode(answer["data"]))
