"""A headless Chromium for tests: it opens one page after another and reports what each page did."""

import asyncio
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--remote-debugging-port=0"),
)
PATIENCE = 60.0
"""Seconds after which something that a page should do counts as never done."""


@dataclass
class Page:
    """A page that was opened. said: messages on its console and errors that nothing caught."""

    loop: asyncio.AbstractEventLoop
    socket: aiohttp.ClientWebSocketResponse
    said: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    calls: int = 0

    def call(self, method: str, **parameters: Any) -> Any:
        """The result of a command of the DevTools protocol."""
        return self.loop.run_until_complete(self._call(method, parameters))

    async def _call(self, method: str, parameters: dict[str, Any]) -> Any:
        self.calls += 1
        number = self.calls
        await self.socket.send_json({"id": number, "method": method, "params": parameters})
        while True:
            message = json.loads((await asyncio.wait_for(self.socket.receive(), PATIENCE)).data)
            if message.get("id") == number:
                assert "error" not in message, message
                return message["result"]
            self._note(message.get("method"), message.get("params", {}))

    def _note(self, event: str, told: dict[str, Any]) -> None:
        if event == "Network.requestWillBeSent":
            self.requests.append(told["request"]["url"])
        elif event in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"):
            self.said.append(json.dumps(told)[:600])

    def run(self, script: str) -> Any:
        """What an expression of JavaScript is in the page; promises are awaited."""
        found = self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def wait_for(self, script: str) -> None:
        """Wait until an expression is true."""
        end = time.monotonic() + PATIENCE
        while not self.run(script):
            assert time.monotonic() < end, f"never true: {script}; {self.said}"
            time.sleep(0.05)

    def point_at(self, selector: str, click: int = 0) -> None:
        """Move the pointer to the middle of the first such element, and click as often."""
        box = (
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); "
            "e.scrollIntoView({block: 'center'}); const b = e.getBoundingClientRect(); "
            "return [b.x + b.width / 2, b.y + b.height / 2] })()"
        )
        x, y = self.run(box)
        kinds = ["mouseMoved", *["mousePressed", "mouseReleased"] * click]
        for kind in kinds:
            button = {} if kind == "mouseMoved" else {"button": "left", "clickCount": 1}
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **button)


class Browser:
    """One Chromium with a profile of its own."""

    def __init__(self, profile: Path) -> None:
        assert CHROMIUM is not None
        self.process = subprocess.Popen(
            [CHROMIUM, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.profile = profile
        self.loop = asyncio.new_event_loop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.process.kill()
        self.process.wait()
        self.loop.close()

    def _port(self) -> str:
        told = self.profile / "DevToolsActivePort"
        end = time.monotonic() + PATIENCE
        while not (told.exists() and told.read_text().strip()):
            assert time.monotonic() < end and self.process.poll() is None, "Chromium has not begun"
            time.sleep(0.05)
        return told.read_text().split()[0]

    @contextmanager
    def open(self, file: Path) -> Iterator[Page]:
        """A page, once its scripts have drawn everything."""
        session = self.loop.run_until_complete(self._session())
        try:
            page = Page(self.loop, self.loop.run_until_complete(self._socket(session)))
            for domain in ("Runtime", "Log", "Network", "Page"):
                page.call(f"{domain}.enable")
            page.call("Page.navigate", url=file.as_uri())
            page.wait_for("document.documentElement?.dataset.drawn === 'yes'")
            yield page
        finally:
            self.loop.run_until_complete(session.close())

    async def _session(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession()

    async def _socket(self, session: aiohttp.ClientSession) -> aiohttp.ClientWebSocketResponse:
        async with session.put(f"http://127.0.0.1:{self._port()}/json/new?about:blank") as answer:
            target = await answer.json()
        return await session.ws_connect(target["webSocketDebuggerUrl"], max_msg_size=0)
