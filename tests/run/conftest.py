from pathlib import Path

import pytest

from sweepd.store.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.create(str(tmp_path / "results"))
