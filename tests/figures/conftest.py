"""What all tests of figures share: questions to the invented store, and a browser."""

from collections.abc import Iterator

import invented
import pytest
from browser import CHROMIUM, Browser
from fake_store import now

from sweepd.figures.kinds import Questions
from sweepd.query.database import connect


@pytest.fixture(scope="session")
def asked() -> Questions:
    """Nothing changes what was asked."""
    return Questions(connect(invented.store(), code=now))


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("needs Chromium: apt-get install -y chromium")
    with Browser(tmp_path_factory.mktemp("profile")) as found:
        yield found
