"""From YAML text to data and the place of each value: the scalars of YAML 1.2, lines, what is
refused, and --set. What is written as YAML is read back as the same data. Covers `limits.py`."""

import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweepd.grid import yamlfile
from sweepd.grid.yamlfile import GridError, Problem, dotted, dump, override, parse, read

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
    | st.sampled_from(
        ["yes", "on", "5e-3", "0x1F", "010", "1:30", "null", "~", "", "<<", "=", "2024-01-01"]
    )
    | st.sampled_from(["nan", "1_000", "-Inf", "0b1"])
)
keys = st.text(st.characters(exclude_categories=["Cs"]), max_size=6).filter(lambda key: key != "<<")
data = st.dictionaries(
    keys,
    st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    ),
    max_size=4,
)


def problems(text: str) -> list[str]:
    try:
        return [str(problem) for problem in parse(text, "g.yaml").problems]
    except GridError as error:
        return [str(problem) for problem in error.problems]


@given(data)
@settings(max_examples=200)
def test_what_is_dumped_reads_back(written: dict[str, object]) -> None:
    document = parse(dump(written), "g.yaml")
    assert not document.problems
    assert document.data == written
    assert repr(document.data) == repr(written)  # 1, 1.0 and True are told apart


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5e-3", 0.005), ("5.0E-3", 0.005), (".5", 0.5), ("3.", 3.0), ("-3", -3), ("010", 10),
        ("0x10", 16), ("0o10", 8), ("true", True), ("Null", None), ("~", None), ("", None),
        ("yes", "yes"), ("on", "on"), ("1:30", "1:30"), ("'1_000'", "1_000"), ("1-2", "1-2"),
        ("2024-01-01", "2024-01-01"), ("'3'", "3"), ("!!str 3", "3"), ("!!float 3", 3.0),
    ],
)  # fmt: skip
def test_scalars_are_those_of_yaml_1_2(text: str, value: object) -> None:
    document = parse(f"a: {text}", "g.yaml")
    assert not document.problems
    assert repr(document.data["a"]) == repr(value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: 1\nb: [2\nc: 3", "g.yaml:3: not YAML"),
        ("a: 1\na: 2", "g.yaml:2: a: written twice (first at g.yaml:1)"),
        ("a: {b: 1,\n b: 2}", "g.yaml:2: a.b: written twice"),
        ("1: x", "g.yaml:1: a key must be text"),
        ("a:\n  [1]: x", "g.yaml:2: a: a key must be text"),
        ("a: &x {b: 1}\nc:\n  <<: *x", "g.yaml:3: c: merge keys"),
        ("a: 1\n---\nb: 2", "g.yaml:2: not YAML"),
        ("- 1", "g.yaml:1: a mapping is needed"),
        ("", "g.yaml: a mapping is needed"),
        ("# only a remark", "g.yaml: a mapping is needed"),
        ("a:\n- .nan", "g.yaml:2: a[0]: .nan is not a finite number"),
        ("a: 1e999", "g.yaml:1: a: 1e999 is not a finite number"),
        ("a: 1_000", "g.yaml:1: a: 1_000 is no number here; write its digits alone, or quote it"),
        ("a: [1, -inf]", "g.yaml:1: a[1]: -inf is no number here"),
        ("a: NaN", "g.yaml:1: a: NaN is no number here"),
        ("a: 0b11", "g.yaml:1: a: 0b11 is no number here"),
        ("a: 9007199254740993", "g.yaml:1: a: 9007199254740993 is too large"),
        ("a: " + 5000 * "9", "g.yaml:1: a: 99"),
        ("a: !!int x", "g.yaml:1: a: 'x' is not of the type int"),
        ("a: !!python/object/apply:os.system [x]", "g.yaml:1: a: the tag python"),
        ("a: !mine 3", "g.yaml:1: a: the tag !mine"),
        ("a: !!set {b}", "g.yaml:1: a: the tag set"),
        ('a: "\\ud800"', "g.yaml:1: a: text with half a surrogate pair"),
        ("a: &x [*x]", "g.yaml:1: a: nested more than"),
        ("a: " + 2000 * "[", "g.yaml: nested too deeply"),
        ("a: *x", "g.yaml:1: not YAML: found undefined alias"),
        ("a: \x00", "g.yaml: not YAML"),
        ('a: "\\U99999999"', "g.yaml: not YAML"),
    ],
)
def test_refused(text: str, problem: str) -> None:
    found = problems(text)
    assert len(found) == 1
    assert found[0].startswith(problem)


def test_every_wrong_value_is_reported_at_once() -> None:
    assert len(problems("a: .nan\nb: .inf\nc: 1\nc: 2\n2: x\n")) == 4


def test_aliases_are_read_but_bounded() -> None:
    assert parse("a: &x [1, 2]\nb: *x", "g.yaml").data == {"a": [1, 2], "b": [1, 2]}
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{i}: &a{i} [{', '.join(10 * [f'*a{i - 1}'])}]\n" for i in range(1, 12)
    )
    [problem] = problems(bomb)
    assert "more than 100,000 values" in problem


def test_places_are_lines_of_keys_and_items() -> None:
    document = parse("a:\n  b:\n  - 1\n  - c: 2\n", "g.yaml")
    assert document.place(("a", "b")) == "g.yaml:2"
    assert document.place(("a", "b", 1, "c")) == "g.yaml:4"
    assert document.place(("a", "b", 0, "nothing", "here")) == "g.yaml:3"
    assert document.place(()) == "g.yaml:1"
    assert dotted(("a", "b", 1, "c")) == "a.b[1].c"


def test_reading_files(tmp_path: Path) -> None:
    path = tmp_path / "g.yaml"
    path.write_bytes("\ufeffa: é".encode())
    assert read(path) == "a: é"
    for content, message in (
        (b"a: 1\nb: \xff", "g.yaml:2: not UTF-8"),
        (b"#" * (yamlfile.MOST_BYTES + 1), "g.yaml: larger than 1,000,000 bytes"),
    ):
        path.write_bytes(content)
        with pytest.raises(GridError, match=message):
            read(path)
    for missing in (tmp_path / "none.yaml", tmp_path):
        with pytest.raises(GridError, match="cannot be read"):
            read(missing)


@pytest.mark.parametrize(
    ("option", "key", "value"),
    [
        ("name=x", "name", "x"),
        ("seeds=[0,1]", "seeds", [0, 1]),
        ("train.steps=500", "train", {"steps": 500, "lr": {"base": 1}}),
        ("train.lr.base=5e-3", "train", {"steps": 1, "lr": {"base": 0.005}}),
        ("stop.success=0.98", "stop", {"success": 0.98}),
        ("empty.success=1", "empty", {"success": 1}),
        ("model.d=[1,2]", "model", [{"d": [1, 2]}, {"d": [1, 2]}]),
        ("model[1].d=3", "model", [{"d": 1}, {"d": 3}]),
        ("model[0]={d: 5}", "model", [{"d": 5}, {"d": 2}]),
        ("seeds[1]=7", "seeds", [5, 7]),
        ("name=", "name", None),
        ("name=a=b", "name", "a=b"),
        ("nobody.knows=1", "nobody", {"knows": 1}),
    ],
)
def test_set(option: str, key: str, value: object) -> None:
    text = (
        "name: a\nseeds: [5, 6]\ntrain: {steps: 1, lr: {base: 1}}\n"
        "model: [{d: 1}, {d: 2}]\nempty:\n"
    )
    document = parse(text, "g.yaml")
    override(document, option)
    assert not document.problems
    assert document.data[key] == value
    path, _, _ = option.partition("=")
    assert f"(--set {path})" in document.places.values()


def test_set_takes_the_place_of_what_was_written() -> None:
    document = parse("a:\n  b: [1, 2]\n  c: 1\n", "g.yaml")
    override(document, "a.b=[3]")
    assert document.place(("a", "b", 0)) == "(--set a.b)"
    assert document.place(("a", "c")) == "g.yaml:3"


def test_set_into_several_blocks_leaves_them_apart() -> None:
    document = parse("model: [{}, {}]", "g.yaml")
    override(document, "model.lr={base: 1}")
    override(document, "model[1].lr.base=2")
    assert document.data == {"model": [{"lr": {"base": 1}}, {"lr": {"base": 2}}]}


@pytest.mark.parametrize(
    ("option", "problem"),
    [
        ("name", "(--set name): write --set path=value"),
        ("=3", "(--set =3): write --set path=value"),
        ("a..b=3", "(--set a..b=3): write --set path=value"),
        ("a[x]=3", "(--set a[x]=3): write --set path=value"),
        ("name=[1", "(--set name): not YAML"),
        ("name=.nan", "(--set name): .nan is not a finite number"),
        ("name.x=3", "(--set name.x): name: is no mapping"),
        ("seeds[2]=3", "(--set seeds[2]): seeds: is no list of more than 2"),
        ("seeds.x=3", "(--set seeds.x): seeds[0]: is no mapping"),
        ("name[0]=3", "(--set name[0]): name: is no list"),
        ("train[0].steps=3", "(--set train[0].steps): train: is no list"),
    ],
)
def test_set_refused(option: str, problem: str) -> None:
    document = parse("name: a\nseeds: [5, 6]\ntrain: {}\n", "g.yaml")
    override(document, option)
    assert str(document.problems[0]).startswith(problem)


def test_an_error_shows_each_problem_once_and_not_thousands() -> None:
    found = [Problem(f"g.yaml:{i}", ("a", i), "wrong") for i in range(70)]
    error = GridError(found + found)
    assert len(error.problems) == 70
    assert str(error).count("\n") == yamlfile.MOST_SHOWN
    assert str(error).endswith("… and 20 more problems")


@given(st.text(max_size=80) | st.text("abc:-[]{}&*!|>'\"#%@\n ,?0.", max_size=80))
@settings(max_examples=500)
def test_any_text_is_data_or_a_grid_error(text: str) -> None:
    try:
        document = parse(text, "g.yaml")
        override(document, text)
    except GridError as error:
        assert error.problems
    else:
        assert not any(
            isinstance(v, float) and not math.isfinite(v) for v in document.data.values()
        )


def test_a_file_that_is_not_there_brings_up_one_like_it(tmp_path: Path) -> None:
    (tmp_path / "first.yaml").touch()
    with pytest.raises(GridError, match=r"No such file or directory \(did you mean first.yaml\?\)"):
        read(tmp_path / "frist.yaml")
    with pytest.raises(GridError, match=r"No such file or directory$"):
        read(tmp_path / "nowhere" / "first.yaml")
