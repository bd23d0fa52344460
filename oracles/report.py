"""The report of a run in a real browser.

Usage: report.py PATH_OF_FULLBORE [PART_OF_A_CASE_NAME], or report.py --cases [PART_OF_A_CASE_NAME] for the names of
the cases alone. Run by `cargo xtask test`. A small run is trained on a synthetic market; its page is opened from the
file system in Chromium, driven through the DevTools pipe, so no package is needed. The browser is FULLBORE_BROWSER or
the first of `BROWSERS` on the PATH (`cargo xtask` installs one where it can); without one every case is skipped,
visibly.

Each case gets a fresh page. In every one of them an error or a warning on the console, a request that leaves the file
and a breach of the content security policy fail it.
"""

import base64
import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BROWSERS = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"]
PATIENCE = 60.0  # seconds for an answer of the browser; none is waited for longer


# ---------------------------------------------------------------- a browser


class Browser:
    """Chromium without a window, spoken to by NUL-terminated JSON over two pipes."""

    def __init__(self, program, folder):
        # The browser reads descriptor 3 and writes 4; ours are above, so that none is overwritten.
        (read, self.to), (self.back, write) = (map(lambda fd: fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10), os.pipe()) for _ in range(2))

        def wire():
            os.dup2(read, 3)
            os.dup2(write, 4)

        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
                 "--disable-extensions", "--disable-background-networking", "--remote-debugging-pipe", f"--user-data-dir={folder}"]
        self.process = subprocess.Popen([program, *flags, "about:blank"], preexec_fn=wire, close_fds=False,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(read)
        os.close(write)
        os.set_blocking(self.back, False)
        self.bytes, self.number, self.events = b"", 0, []

    def message(self, until):
        while b"\0" not in self.bytes:
            if time.monotonic() > until or self.process.poll() is not None:
                raise RuntimeError("the browser does not answer")
            try:
                self.bytes += os.read(self.back, 1 << 20)
            except BlockingIOError:
                time.sleep(0.005)
        text, _, self.bytes = self.bytes.partition(b"\0")
        return json.loads(text)

    def call(self, method, session=None, **params):
        self.number += 1
        request = {"id": self.number, "method": method, "params": params}
        if session:
            request["sessionId"] = session
        os.write(self.to, json.dumps(request).encode() + b"\0")
        until = time.monotonic() + PATIENCE
        while True:
            answer = self.message(until)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def close(self):
        self.process.kill()
        self.process.wait()


class Tab:
    """One page, with everything that went wrong in it."""

    def __init__(self, browser, path, width=1280, height=900, dark=False, touch=False):
        self.browser = browser
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        browser.events.clear()
        for domain in ["Page", "Runtime", "Log", "Network"]:
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=touch)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.call("Page.navigate", url=Path(path).resolve().as_uri())
        self.wait("document.readyState === 'complete'")

    def call(self, method, **params):
        return self.browser.call(method, self.session, **params)

    def js(self, code):
        result = self.call("Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{code}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait(self, condition):
        until = time.monotonic() + PATIENCE
        while not self.js(condition):
            if time.monotonic() > until:
                raise RuntimeError(f"never: {condition}")
            time.sleep(0.02)

    def settle(self):
        """Two frames: what was asked for is drawn."""
        self.js("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def key(self, key):
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, code=key)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, code=key)
        self.settle()

    def picture(self, path, whole=True):
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"clip": {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}} if whole else {}
        Path(path).write_bytes(base64.b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=whole, **clip)["data"]))

    def troubles(self):
        self.js("1")
        found = []
        for event in self.browser.events:
            if event.get("sessionId") != self.session:
                continue
            method, params = event["method"], event["params"]
            if method == "Runtime.exceptionThrown":
                found.append(params["exceptionDetails"].get("exception", {}).get("description", "an exception"))
            elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
                found.append(f"console: {params['args']}")
            elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                found.append(params["entry"]["text"])
            elif method == "Network.requestWillBeSent" and not params["request"]["url"].startswith(("file:", "data:")):
                found.append(f"asks for {params['request']['url']}")
        return found


# ---------------------------------------------------------------- cases

CHARTS = "[...document.querySelectorAll('svg.zoom')].filter(svg => svg.closest('[hidden]') === null)"
FIRST = "document.querySelector('svg.zoom')"


def axis(tab):
    """What stands below the first chart, and what its range is said to be."""
    return tab.js(f"[...{FIRST}.querySelectorAll(':scope > text')].map(t => t.textContent).join('|') + document.querySelector('.range').textContent")


def middle(tab, share=0.5):
    tab.js(f"{FIRST}.scrollIntoView({{block: 'center', behavior: 'instant'}})")
    tab.settle()
    box = tab.js(f"(() => {{ const b = {FIRST}.getBoundingClientRect(); return [b.left, b.top, b.width, b.height]; }})()")
    return box[0] + share * box[2], box[1] + box[3] / 2


def opens(tab):
    assert tab.js("document.querySelector('.verdict b').textContent.length") > 3
    headings = tab.js("[...document.querySelectorAll('h2')].map(h => h.textContent).join()")
    assert headings.startswith("Verdict,"), headings
    assert all(name in headings for name in ["Returns", "Trades", "Breakdown", "Predictions", "Training", "Machine"]), headings
    sizes = tab.js(CHARTS + ".map(svg => [svg.clientWidth, svg.clientHeight, svg.querySelectorAll('path.over').length])")
    assert len(sizes) >= 5 and all(wide > 300 and high > 100 and lines > 0 for wide, high, lines in sizes), sizes
    # A path is drawn inside its frame, and has a length.
    assert tab.js(CHARTS + ".every(svg => svg.querySelector('path.over').getTotalLength() > 100)")
    assert tab.js("document.querySelectorAll('.unseen table, .months table').length") >= 5
    assert tab.js(f"{FIRST}.querySelectorAll('path.over.band').length") == 1, "what chance gives"


def drag_zooms(tab):
    before, (x, y) = axis(tab), middle(tab, 0.3)
    tab.mouse("mousePressed", x, y, button="left", clickCount=1)
    for step in range(1, 6):
        tab.mouse("mouseMoved", x + 40 * step, y, button="left")
    tab.mouse("mouseReleased", x + 200, y, button="left", clickCount=1)
    tab.settle()
    after = axis(tab)
    assert after != before, after
    ranges = tab.js("[...document.querySelectorAll('.range')].filter(r => r.closest('[hidden]') === null).map(r => r.textContent.split('; ').at(-1))")
    assert len(set(ranges)) == 1, f"charts show one range: {ranges}"
    assert not tab.js("document.querySelector('.reset').hidden")
    tab.js("document.querySelector('.reset').click()")
    tab.settle()
    assert axis(tab) == before


def keys_and_wheel(tab):
    before, (x, y) = axis(tab), middle(tab)
    tab.mouse("mouseWheel", x, y, deltaX=0, deltaY=-200)
    tab.settle()
    assert axis(tab) == before, "the wheel scrolls the page until a chart is clicked"
    tab.js(f"{FIRST}.focus()")
    seen = [before]
    for key in ["+", "+", "ArrowRight", "ArrowLeft", "-"]:
        tab.key(key)
        seen.append(axis(tab))
    assert len(set(seen)) == 4 and seen[2] == seen[4] and seen[1] == seen[5], seen
    x, y = middle(tab)
    tab.mouse("mouseWheel", x, y, deltaX=0, deltaY=-300)
    tab.settle()
    assert axis(tab) != seen[-1], "the wheel zooms a chart that has the focus"
    tab.key("Home")
    assert axis(tab) == before


def hover_reads(tab):
    x, y = middle(tab)
    tab.mouse("mouseMoved", x, y)
    tab.settle()
    tip = tab.js("document.getElementById('tip').hidden ? '' : document.getElementById('tip').textContent")
    assert "net of costs" in tip and "%" in tip and tip[:2] == "20", tip
    assert tab.js("[...document.querySelectorAll('.cross')].filter(c => c.getAttribute('d')).length") >= 3


def trades_are_drawn(tab):
    chart = "[...document.querySelectorAll('.timeline')].find(f => f.textContent.includes('price and trades') && f.closest('[hidden]') === null)"
    assert tab.js(f"{chart}.querySelectorAll('.entry, rect.win, rect.loss').length") > 0
    # Zoomed in far enough, each is a triangle and a circle.
    tab.js(f"{chart}.querySelector('svg').focus()")
    for _ in range(40):
        if tab.js(f"{chart}.querySelectorAll('.entry').length > 0"):
            break
        tab.key("+")
    assert tab.js(f"{chart}.querySelectorAll('.entry').length === {chart}.querySelectorAll('circle.exit').length")


def colours(tab):
    return tab.js("[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.querySelector('path.over.main')).stroke].join()")


def nothing_overlaps(tab):
    """Labels of an axis do not touch, and nothing is wider than the page."""
    assert tab.js("document.documentElement.scrollWidth <= innerWidth"), tab.js("document.documentElement.scrollWidth")
    worst = tab.js("""(() => { let worst = '';
      for (const svg of document.querySelectorAll('svg.zoom')) {
        const boxes = [...svg.querySelectorAll(':scope > text')].map(t => [t.textContent, t.getBoundingClientRect()]);
        for (const [i, [a, p]] of boxes.entries()) for (const [b, q] of boxes.slice(i + 1))
          if (p.width && q.width && p.left < q.right && q.left < p.right && p.top < q.bottom && q.top < p.bottom)
            worst = a + ' / ' + b;
      } return worst; })()""")
    assert not worst, worst


CASES = {
    "the page opens and its charts have a size": (opens, {}),
    "it opens on a phone, too": (opens, {"width": 390, "height": 844, "touch": True}),
    "dragging zooms all charts, and a button resets them": (drag_zooms, {}),
    "keys zoom and move, the wheel only a chart with the focus": (keys_and_wheel, {}),
    "hovering reads the values": (hover_reads, {}),
    "trades are marked on the price": (trades_are_drawn, {}),
    "nothing overlaps on a desktop": (nothing_overlaps, {}),
    "nothing overlaps on a phone": (nothing_overlaps, {"width": 390, "height": 844, "touch": True}),
}


def browser_program():
    own = os.environ.get("FULLBORE_BROWSER")
    return own or next(filter(None, map(shutil.which, BROWSERS)), None)


def make_run(fullbore, folder):
    """A trained run that trades: a synthetic market with a planted signal."""
    env = {**os.environ, "FULLBORE_HOME": str(folder / "home")}

    def go(*words):
        done = subprocess.run([fullbore, *words], env=env, cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    go("data", "synth", "--kind", "crypto", "--count", "1", "--timeframe", "1h", "--bars", "50000", "--plant", "--accuracy", "0.53",
       "--name", "market", "--quiet")
    go("train", "market", "--learner", "mlp", "--epochs", "4", "--seeds", "1", "--folds", "8", "--labels", "fixed(1)", "--set",
       "instrument.SYN001USDT.fee_bp=1", "--features", "col(plant), ret(1), rsi(14)", "--out", "run", "--quiet")
    (folder / "run/report.html").unlink()
    go("report", "run")
    return folder / "run/report.html"


def main():
    fullbore, part = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""
    names = [*CASES, "light and dark differ"]
    chosen = [name for name in names if part in name]
    if fullbore == "--cases":
        print(*chosen, sep="\n", end="\n" if chosen else "")
        return
    program = browser_program()
    if not program or not chosen:
        for name in chosen:
            print(f"not run: {name}")
            print("SKIP: no Chromium; install it (as root, `apt-get install chromium`) or set FULLBORE_BROWSER to its program")
        print(f"0 passed, 0 failed, {len(chosen)} skipped")
        return
    passed = failed = 0
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        page = make_run(Path(fullbore).resolve(), Path(folder))
        size = page.stat().st_size
        assert size < 2_000_000, f"the page has {size} bytes"
        browser = Browser(program, Path(folder) / "browser")
        try:
            for name in chosen:
                try:
                    if name in CASES:
                        case, how = CASES[name]
                        tab = Tab(browser, page, **how)
                        case(tab)
                    else:
                        tab = Tab(browser, page)
                        light = colours(tab)
                        assert not tab.troubles(), tab.troubles()
                        tab = Tab(browser, page, dark=True)
                        dark = colours(tab)
                        assert light != dark and light.split(",")[0] != dark.split(",")[0], (light, dark)
                    wrong = tab.troubles()
                    assert not wrong, wrong
                    passed += 1
                except (AssertionError, RuntimeError) as why:
                    failed += 1
                    print(f"FAILED {name}: {why}")
        finally:
            browser.close()
    print(f"{passed} passed, {failed} failed, 0 skipped")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
