"""`sweep.json`: what is saved of a sweep besides its grid and its plan. The rest of
sweepd.store.sweeps is tested through the store, in test_store.py."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweepd.store.storage import from_json, to_json
from sweepd.store.sweeps import SHAPE, SweepInfo

texts, words = st.text(max_size=5), st.text(min_size=1, max_size=5)
infos = st.builds(
    SweepInfo,
    goal=texts,
    pass_rule=texts,
    tune=st.lists(texts).map(tuple),
    search=texts,
    extra_seeds=st.lists(st.integers()).map(tuple),
    base=texts,
    created=texts,
    accepted_for=st.dictionaries(words, st.lists(texts).map(tuple)),
    size_fields=st.dictionaries(words, texts),
    task_fields=st.dictionaries(words, st.lists(texts).map(tuple)),
    code_files=st.dictionaries(words, st.dictionaries(words, texts)),
)


@given(infos)
def test_what_is_written_is_read_back(info: SweepInfo) -> None:
    assert SweepInfo.from_json(from_json(to_json(info.to_json()), SHAPE)) == info


def test_keys_of_later_versions_are_ignored() -> None:
    later = {"goal": "acc > 0.9", "format": 2, "budget": {"dollars": 5}}
    assert SweepInfo.from_json(later) == SweepInfo(goal="acc > 0.9")


@pytest.mark.parametrize(
    "content",
    [{"goal": 1}, {"goal": "", "tune": "train.lr"}, {"goal": "", "task_fields": {"lis": "n"}},
     {"goal": "", "code_files": {"x": []}}, {"created": "2026-11-21T15:47:55+00:00"}],
)  # fmt: skip
def test_values_of_another_type_and_a_missing_goal_are_damage(content: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"not what was saved|it has no goal"):
        SweepInfo.from_json(from_json(json.dumps(content).encode(), SHAPE))
