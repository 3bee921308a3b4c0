# SPDX-License-Identifier: GPL-2.0
"""A browser without a screen, Chromium's headless shell, told what to do by its DevTools protocol through two pipes.

    with Browser() as browser, browser.page(360, 740, dark=True) as page:
        page.load("http://127.0.0.1:9182/")
        page.value("document.title")
"""
import base64
import contextlib
import fcntl
import json
import os
import queue
import signal
import subprocess
import tempfile
import threading
import time

from lardd import kit

PROGRAM = "chromium-headless-shell"
# Nobody is asked for anything but what a page refers to, and names lead nowhere.
OPTIONS = ("--remote-debugging-pipe", "--no-first-run", "--disable-gpu", "--disable-background-networking",
           "--disable-component-update", "--disable-default-apps", "--disable-extensions", "--disable-sync",
           "--disable-dev-shm-usage", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1")
KEYS = {"Tab": 9, "Enter": 13, "Space": 32, "ArrowRight": 39, "Escape": 27}
PATIENCE = 4 * kit.PATIENCE


class Browser:
    """One process for all pages; it is ended with the block."""

    def __init__(self):
        self.directory = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        commands, self.commands = os.pipe()
        self.answers, answers = os.pipe()
        # It reads what it is told from descriptor 3, and answers on 4.
        low = (commands, answers)
        commands, answers = (fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in low)
        options = OPTIONS + (("--no-sandbox",) if os.geteuid() == 0 else ())
        self.process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{commands} 4>&{answers}', "bash", PROGRAM, *options,
             f"--user-data-dir={self.directory.name}", "about:blank"],
            pass_fds=(commands, answers), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True)
        for fd in (*low, commands, answers):
            os.close(fd)
        self.last, self.waiting, self.pages, self.lock = 0, {}, {}, threading.Lock()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        """Each message is JSON and ends with a zero byte."""
        data = b""
        while (more := os.read(self.answers, 1 << 20)):
            *messages, data = (data + more).split(b"\0")
            for message in map(json.loads, messages):
                if "id" in message:
                    with self.lock:
                        self.waiting.pop(message["id"]).put(message)
                elif message.get("sessionId") in self.pages:
                    self.pages[message["sessionId"]].append((message["method"], message["params"]))
        with self.lock:
            for answer in self.waiting.values():
                answer.put({"error": {"message": "the browser has ended"}})

    def call(self, method, session=None, **params):
        answer = queue.Queue()
        with self.lock:
            self.last += 1
            self.waiting[self.last] = answer
            text = json.dumps({"id": self.last, "method": method, "params": params,
                               **({"sessionId": session} if session else {})})
            os.write(self.commands, text.encode() + b"\0")
        got = answer.get(timeout=PATIENCE)
        assert "error" not in got, (method, got["error"]["message"])
        return got["result"]

    @contextlib.contextmanager
    def page(self, width=1280, height=900, **more):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        try:
            yield Page(self, self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"],
                       width, height, **more)
        finally:
            self.call("Target.closeTarget", targetId=target)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError, AssertionError, queue.Empty):
            self.call("Browser.close")
        os.close(self.commands)
        try:
            self.process.wait(kit.PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)     # Debian's program is a script that has it as a child
            self.process.wait()
        self.reader.join(kit.PATIENCE)
        os.close(self.answers)
        self.directory.cleanup()


class Page:
    """A tab of that size, light or dark. @events: all that it told of, the oldest first."""

    def __init__(self, browser, session, width, height, dark=False, phone=False, script=True):
        self.browser, self.session, self.events = browser, session, []
        browser.pages[session] = self.events
        for domain in ("Page", "Runtime", "Log", "Network", "DOM", "Accessibility"):
            self.call(f"{domain}.enable")
        self.size(width, height, phone)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        if not script:
            self.call("Emulation.setScriptExecutionDisabled", value=True)

    def call(self, method, **params):
        return self.browser.call(method, self.session, **params)

    def size(self, width, height, phone=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, mobile=phone,
                  deviceScaleFactor=2 if phone else 1)

    def load(self, url):
        loader = self.call("Page.navigate", url=url)["loaderId"]

        def loaded():
            methods = [params["frame"]["loaderId"] == loader or "old" if method == "Page.frameNavigated" else method
                       for method, params in list(self.events)]
            return True in methods and "Page.loadEventFired" in methods[methods.index(True):]
        kit.wait_for(f"{url} to load", loaded, PATIENCE)

    def told(self, *methods):
        return [params for method, params in list(self.events) if method in methods]

    def value(self, expression):
        """Of JavaScript, as the page's own would see it; promises are waited for."""
        got = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in got, got["exceptionDetails"]
        return got["result"].get("value")

    def until(self, expression, what=None):
        return kit.wait_for(what or expression, lambda: self.value(expression), PATIENCE)

    def press(self, key, text=None):
        code = {"key": " " if key == "Space" else key, "code": key, "windowsVirtualKeyCode": KEYS[key]}
        if key in ("Enter", "Space"):
            code["text"] = text or {"Enter": "\r", "Space": " "}[key]
        self.call("Input.dispatchKeyEvent", type="keyDown", **code)
        self.call("Input.dispatchKeyEvent", type="keyUp", **{k: v for k, v in code.items() if k != "text"})

    def picture(self, path):
        """The whole page, as high as it is."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        got = self.call("Page.captureScreenshot", captureBeyondViewport=True,
                        clip={"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1})
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(base64.b64decode(got["data"]))

    def tree(self):
        """What a screen reader is given: role, name and properties of all that is not hidden from it."""
        return [{"role": node["role"]["value"], "name": node.get("name", {}).get("value", ""),
                 **{p["name"]: p["value"].get("value") for p in node.get("properties", [])}}
                for node in self.call("Accessibility.getFullAXTree")["nodes"] if not node["ignored"]]

    def complaints(self):
        """What a browser's console would show, and what could not be loaded."""
        return self.told("Runtime.exceptionThrown", "Log.entryAdded", "Page.javascriptDialogOpening",
                         "Network.loadingFailed") + \
            [params for params in self.told("Runtime.consoleAPICalled") if params["type"] != "debug"]

    def asked(self):
        """URLs that it wanted."""
        return [params["request"]["url"] for params in self.told("Network.requestWillBeSent")]


def pause(seconds):
    """For what must not happen meanwhile."""
    time.sleep(seconds)
