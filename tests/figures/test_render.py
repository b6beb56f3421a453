"""Figures as files. They are as wide as a column of a paper, their letters are sized in points, and
their fonts are within the file. On an HTML page, what a trial has written is shown as text. It can
neither run a script nor end one."""

import json
import re
import struct
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweepd.figures.kinds import KINDS, Questions
from sweepd.figures.render import PIXELS_PER_INCH, drawn, embedded, page, table
from sweepd.figures.style import POINTS_PER_INCH, WIDTHS


@pytest.mark.parametrize(
    ("kind", "columns"), [("heatmap", "one"), ("min", "two"), ("curves", "one")]
)
def test_a_figure_is_as_wide_as_its_columns(kind: str, columns: str, asked: Questions) -> None:
    svg = drawn(KINDS[kind].draw(asked), KINDS[kind].shows, "svg", columns).decode()
    found = re.search(r'width="([\d.]+)pt"', svg)
    assert found and float(found[1]) == pytest.approx(WIDTHS[columns], abs=4)
    sizes = {float(size) for size in re.findall(r'font-size="([\d.]+)px"', svg)}
    assert min(sizes) >= 6 and max(sizes) <= 9
    assert KINDS[kind].shows in svg  # for those who cannot see it


def test_pixels_are_dense_and_pdf_holds_its_letters(asked: Questions) -> None:
    kind = KINDS["frontier"]
    png = drawn(kind.draw(asked), kind.shows, "png", "one")
    width = struct.unpack(">I", png[16:20])[0]
    assert width == pytest.approx(WIDTHS["one"] * PIXELS_PER_INCH / POINTS_PER_INCH, abs=20)
    pdf = drawn(kind.draw(asked), kind.shows, "pdf", "one")
    assert pdf.startswith(b"%PDF") and b"/FontFile" in pdf


# Pages

ANY = st.text(st.characters(codec="utf-8"), max_size=40) | st.sampled_from(["</script>", "<!--"])


@given(st.dictionaries(ANY, ANY | st.floats(allow_nan=False, allow_infinity=False)))
def test_embedded_data_is_json_that_ends_no_script(data: dict[str, object]) -> None:
    text = embedded(data)
    assert json.loads(text) == data and not set("<>&\u2028\u2029").intersection(text)


@given(ANY.filter(str.strip))
def test_a_table_shows_any_text_as_it_is(text: str) -> None:
    tags: set[str] = set()
    texts: set[str] = set()
    parser = HTMLParser()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parser, "handle_starttag", lambda tag, _: tags.add(tag))
        patch.setattr(parser, "handle_data", texts.add)
        parser.feed(table([text], [{text: text}, {text: None}], text))
    assert tags <= {"div", "table", "caption", "thead", "tbody", "tr", "th", "td"}
    assert text.replace("\r\n", "\n") in texts or "\r" in text or "\0" in text


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
