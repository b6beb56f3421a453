"""`sweep.json`: what is saved of a sweep besides its grid and its plan. The rest of
sweepd.store.sweeps is tested through the store, in test_store.py."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweepd.limits import FIELD, METRIC, PASS_RULES
from sweepd.store.storage import from_json, to_json
from sweepd.store.sweeps import SHAPE, SweepInfo

texts, words = st.text(max_size=5), st.text(min_size=1, max_size=5)
fields = st.from_regex(FIELD, fullmatch=True)
infos = st.builds(
    SweepInfo,
    goal=st.builds("{} {} {!r}".format, fields, st.sampled_from([">", "<="]), st.floats(0, 1)),
    pass_rule=st.sampled_from(PASS_RULES),
    tune=st.lists(fields.map("train.{}".format)).map(tuple),
    search=texts,
    extra_seeds=st.lists(st.integers(0, 2**53)).map(tuple),
    base=texts.filter(lambda text: "\0" not in text),
    created=texts,
    accepted_for=st.dictionaries(words, st.lists(texts).map(tuple)),
    size_fields=st.dictionaries(words, fields),
    task_fields=st.dictionaries(words, st.lists(fields).map(tuple)),
    metrics=st.dictionaries(st.from_regex(METRIC, fullmatch=True), st.just("up")),
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


@pytest.mark.parametrize(
    "content",
    [
        {"metrics": {'acc_least) AS "x", (SELECT 1': "up"}}, {"metrics": {"f1": "sideways"}},
        {"metrics": {"F1": "up"}}, {"goal": "acc > nan"}, {"goal": "acc > 1; DROP TABLE trials"},
        {"goal": "acc"}, {"pass": "most"}, {"minimized": 'd" FROM x'}, {"tune": ["train.l r"]},
        {"size_fields": {"lis": "n\n"}}, {"task_fields": {"lis": ["n", ""]}},
        {"extra_seeds": [2**70]}, {"fresh_seeds": [-1]}, {"base": "a\0b"},
        {"settle": {"factor": 4.0, "least": 1e300, "most": 10}},
    ],
)  # fmt: skip
def test_what_no_grid_can_say_is_damage(content: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="not what a grid says: "):
        SweepInfo.from_json({"goal": "acc > 0.9", **content})


@pytest.mark.parametrize(
    "text",
    ['{"goal": "acc > 0.9", "extra_seeds": [true]}', '{"goal": "acc > 0.9", "settle": {}}',
     '{"goal": "acc > 0.9", "settle": {"factor": NaN, "least": 1, "most": 2}}',
     '{"goal": "acc > 0.9", "settle": {"factor": 1e999, "least": 1, "most": 2}}',
     '{"goal": "\\ud800"}', "[" * 100_000, '{"goal": "acc > 0.9", "sources": {"x": {}}}',
     '{"goal": "acc > 0.9", "own_classes": {"loop": {"x": {"where": "a.py:f"}}}}'],
    ids=lambda text: text[:40],
)  # fmt: skip
def test_json_that_no_version_writes_is_damage(text: str) -> None:
    with pytest.raises(ValueError):
        from_json(text.encode(), SHAPE)


def test_each_flipped_bit_and_each_cut_is_noticed_or_changes_nothing() -> None:
    """Only what is said without a digest at all, as by earlier versions, is not compared."""
    info = {"goal": "acc > 0.9", "metrics": {"f1": "up"}, "base": "/home/ä"}
    data = to_json(info)
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        with suppress(ValueError):
            content = from_json(bytes(flipped), SHAPE)
            assert {key: content[key] for key in info} == info
    for end in range(len(data) - 1):
        with pytest.raises(ValueError):
            from_json(data[:end], SHAPE)
