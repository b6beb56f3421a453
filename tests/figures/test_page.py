"""HTML pages: what a trial has written is shown as text. It can neither run a script nor end
one."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from sweepd.figures.render import embedded, page, table

ANY = st.text(st.characters(codec="utf-8"), max_size=40) | st.sampled_from(["</script>", "<!--"])


@given(st.dictionaries(ANY, ANY | st.floats(allow_nan=False, allow_infinity=False)))
def test_embedded_data_is_json_that_ends_no_script(data: dict[str, object]) -> None:
    text = embedded(data)
    assert json.loads(text) == data and not set("<>&\u2028\u2029").intersection(text)


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@given(ANY.filter(str.strip))
def test_a_table_shows_any_text_as_it_is(text: str) -> None:
    found = Tags()
    found.feed(table([text], [{text: text}, {text: None}], text))
    assert set(found.tags) <= {"div", "table", "caption", "thead", "tbody", "tr", "th", "td"}
    assert (
        [t for t in found.text if t == text.replace("\r\n", "\n")] or "\r" in text or "\0" in text
    )


def test_numbers_stand_to_the_right_and_truths_are_words() -> None:
    found = table(["a", "b"], [{"a": 0.123456, "b": True}, {"a": None, "b": False}], "c")
    assert '<td class="number">0.1235</td><td>yes</td>' in found
    assert "<td></td><td>no</td>" in found


def test_only_the_pages_own_scripts_and_style_may_run() -> None:
    text = page("<b>title</b>", "<p>body</p>", {"figures": {}}).decode()
    assert "<title>&lt;b&gt;title" in text and "<p>body</p>" in text
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', text)
    assert policy and "default-src 'none'" in policy[1] and "unsafe" not in policy[1]
    allowed = set(re.findall(r"'sha256-([^']+)'", policy[1]))
    inner = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    inner += re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    assert {b64encode(sha256(one.encode()).digest()).decode() for one in inner} == allowed
    assert len(inner) == 3
