from __future__ import annotations

import math
import tomllib
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from reliant.config import Config, build, check_keys, flat, load, merge, parse_set, preset_table, read_toml, to_toml
from reliant.errors import ConfigError, UsageError

STAGES = {
    name: field.annotation
    for name, field in Config.model_fields.items()
    if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)
}


def refused(table: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        build(table)
    return str(caught.value)


def test_the_papers_values_are_the_defaults() -> None:
    config = Config()
    assert (config.network.name, config.network.dimension, config.network.input) == ("alexnet", 2048, "sobel")
    assert (config.initial.rate, config.initial.momentum, config.initial.reassign_every) == (0.01, 0.9, 3)
    assert (config.chance.percentile, config.subsets.count, config.rounds.count) == (3.0, 5, 4)
    assert (config.local.loss, config.local.unit, config.rounds.choice) == ("squared", "image", "random")


def test_a_configuration_cannot_be_changed() -> None:
    config = Config()
    with pytest.raises(ValueError, match="frozen"):
        config.seed = 3
    with pytest.raises(ValueError, match="frozen"):
        config.local.rate = 3.0


def test_a_misspelt_key_names_the_nearest() -> None:
    assert refused({"local": {"passess": 3}}) == "unknown key 'local.passess'; did you mean 'local.passes'?"
    assert refused({"inital": {"passes": 3}}) == "unknown stage 'inital'; did you mean 'initial'?"


def test_an_unknown_key_that_is_near_to_none_lists_all() -> None:
    message = refused({"rounds": {"zzz": 1}})
    assert message == ("unknown key 'rounds.zzz'; allowed: rounds.count, rounds.control, rounds.objective, rounds.choice")


def test_a_value_in_the_place_of_a_table() -> None:
    assert refused({"rounds": 5}) == "rounds is a table of keys (count, control, objective, choice), got 5"


@pytest.mark.parametrize("stage", STAGES)
def test_every_stage_refuses_a_key_that_it_does_not_have(stage: str) -> None:
    assert refused({stage: {"xyzzy": 1}}).startswith(f"unknown key '{stage}.xyzzy'; ")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"local": {"rate": 0}}, "local.rate: Input should be greater than 0, got 0"),
        (
            {"local": {"rate": "fast"}},
            "local.rate: Input should be a valid number, unable to parse string as a number, got 'fast'",
        ),
        ({"local": {"unit": "pair"}}, "local.unit: Input should be 'image' or 'group', got 'pair'"),
        ({"groups": {"cap": 1}}, "groups.cap: Input should be greater than or equal to 2, got 1"),
        ({"augment": {"scale": 1.5}}, "augment.scale: Input should be less than or equal to 1, got 1.5"),
        ({"initial": {"momentum": 1}}, "initial.momentum: Input should be less than 1, got 1"),
        (
            {"initial": {"batch": 2.5}},
            "initial.batch: Input should be a valid integer, got a number with a fractional part, got 2.5",
        ),
        ({"seed": "x"}, "seed: Input should be a valid integer, unable to parse string as an integer, got 'x'"),
        ({"local": {"passes": math.inf}}, "local.passes: Input should be a finite number, got inf"),
        ({"refine": {"passes": math.nan}}, "refine.passes: Input should be a finite number, got nan"),
    ],
)
def test_a_wrong_value_is_named_with_what_is_allowed(table: dict[str, Any], message: str) -> None:
    assert refused(table) == message


def test_a_spread_is_a_number_or_measured() -> None:
    assert build({"targets": {"spread": 0.25}}).targets.spread == 0.25
    assert build({"targets": {"spread": "measured"}}).targets.spread == "measured"
    assert refused({"targets": {"spread": "wide"}}).startswith("targets.spread: ")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            {"local": {"unit": "group"}},
            "local.unit = 'group' needs local.view = 'clean': a group is assigned by the mean of its images",
        ),
        (
            {"neighbours": {"k": 6}, "groups": {"cap": 8}},
            "neighbours.k = 6 is too small for groups.cap = 8; set neighbours.k to at least 7",
        ),
        (
            {"subsets": {"mode": "whole"}, "rounds": {"objective": "triplets"}},
            "rounds.objective = 'triplets' needs subsets.mode = 'divided': dissimilarity comes from subsets",
        ),
        (
            {"refine": {"nesterov": True, "momentum": 0.0}},
            "refine.nesterov = true needs momentum; set refine.momentum above 0 or refine.nesterov = false",
        ),
    ],
)
def test_keys_that_contradict_each_other(table: dict[str, Any], message: str) -> None:
    assert refused(table) == message


def test_several_wrong_values_are_all_named() -> None:
    message = refused({"local": {"rate": -1}, "groups": {"cap": 0}})
    assert "groups.cap: " in message
    assert "local.rate: " in message


def test_a_configuration_error_is_one_of_usage() -> None:
    assert issubclass(ConfigError, UsageError)
    assert ConfigError.exit_code == 2


@pytest.mark.parametrize(
    ("text", "table"),
    [
        ("local.passes=20", {"local": {"passes": 20}}),
        (" local.passes = 2.5 ", {"local": {"passes": 2.5}}),
        ("seed=7", {"seed": 7}),
        ("rounds.control=true", {"rounds": {"control": True}}),
        ("network.name=resnet18", {"network": {"name": "resnet18"}}),
        ('network.name="resnet18"', {"network": {"name": "resnet18"}}),
        ("network.name=", {"network": {"name": ""}}),
        ("network.name=a=b", {"network": {"name": "a=b"}}),
    ],
)
def test_a_set_is_a_table(text: str, table: dict[str, Any]) -> None:
    assert parse_set(text) == table


@pytest.mark.parametrize("text", ["local.passes", "=3", " = 3", ""])
def test_a_set_without_key_and_value(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_set(text)
    assert str(caught.value) == f"--set takes stage.key=value (for example local.passes=20), got '{text}'"


@pytest.mark.parametrize("text", ["local.rate.x=1", "a.b.c=1", ".seed=3", "local.=3"])
def test_a_set_that_names_no_key(text: str) -> None:
    with pytest.raises(ConfigError):
        build(parse_set(text))


def test_merging_goes_table_by_table_and_changes_neither() -> None:
    base, over = {"a": {"x": 1, "y": 2}, "seed": 0}, {"a": {"y": 3}, "b": {"z": 4}}
    assert merge(base, over) == {"a": {"x": 1, "y": 3}, "b": {"z": 4}, "seed": 0}
    assert base == {"a": {"x": 1, "y": 2}, "seed": 0}
    assert merge({"a": 1}, {"a": {"x": 1}}) == {"a": {"x": 1}}
    assert merge({"a": {"x": 1}}, {"a": 1}) == {"a": 1}


def test_sets_come_over_files_over_the_preset_and_the_seed_over_all(tmp_path: Path) -> None:
    (tmp_path / "one.toml").write_text("seed = 1\n[local]\npasses = 11\nrate = 0.5\n[refine]\npasses = 5\n")
    (tmp_path / "two.toml").write_text("[local]\npasses = 12\n")
    files, sets = [tmp_path / "one.toml", tmp_path / "two.toml"], ["refine.passes=6", "refine.passes=7"]
    config = load("smoke", files, sets, seed=9)
    assert (config.seed, config.local.passes, config.local.rate, config.refine.passes) == (9, 12, 0.5, 7)
    assert config.network == load("smoke").network
    assert load("smoke", files).seed == 1


def test_a_file_that_is_not_there_or_no_toml(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        read_toml(tmp_path / "no.toml")
    assert str(caught.value) == f"no configuration file {tmp_path / 'no.toml'}"
    (tmp_path / "bad.toml").write_text("seed = = 1")
    with pytest.raises(ConfigError, match=r"bad.toml is not valid TOML: Invalid value"):
        read_toml(tmp_path / "bad.toml")
    (tmp_path / "latin.toml").write_bytes(b'name = "\xff"')
    with pytest.raises(ConfigError, match=r"latin.toml is not valid TOML: 'utf-8'"):
        read_toml(tmp_path / "latin.toml")
    with pytest.raises(ConfigError, match=r"cannot be read: Is a directory"):
        read_toml(tmp_path)


@st.composite
def configurations(draw: st.DrawFn) -> Config:
    """Any values of keys of every kind that agree with each other."""
    real = st.floats(1e-6, 1e6, allow_nan=False)
    cap = draw(st.integers(2, 64))
    local = {
        "passes": draw(real),
        "rate": draw(real | st.integers(1, 9)),
        "nesterov": draw(st.booleans()),
        "loss": draw(st.sampled_from(["squared", "plain", "softmax"])),
        "view": "clean",
        "unit": draw(st.sampled_from(["image", "group"])),
    }
    return build(
        {
            "seed": draw(st.integers(-(2**63), 2**63 - 1)),
            "network": {"name": draw(st.text(max_size=8)), "dimension": draw(st.integers(1, 4096))},
            "augment": {"scale": draw(st.floats(0, 1, exclude_min=True))},
            "targets": {"spread": draw(real | st.just("measured") | st.integers(0, 3)), "projected": draw(st.booleans())},
            "groups": {"cap": cap},
            "neighbours": {"k": cap - 1 + draw(st.integers(0, 9))},
            "local": local,
            "refine": {"passes": draw(st.just(0) | real)},
        }
    )


@given(configurations())
@settings(deadline=None, max_examples=50)
def test_toml_gives_back_the_same_configuration(config: Config) -> None:
    table = tomllib.loads(to_toml(config))
    assert build(table) == config
    assert flat(build(table)) == flat(config)


def test_toml_holds_every_key() -> None:
    table = tomllib.loads(to_toml(Config()))
    assert table["seed"] == 0
    for name, stage in STAGES.items():
        assert list(table[name]) == list(stage.model_fields)


def test_a_whole_number_is_the_real_number_it_stands_for() -> None:
    assert flat(build({"local": {"passes": 20}})) == flat(build({"local": {"passes": 20.0}}))


def accepted(table: dict[str, Any]) -> bool:
    try:
        check_keys(table)
    except ConfigError:
        return False
    return True


def known(stage: str, value: Any) -> bool:
    if stage not in STAGES:
        return stage in Config.model_fields
    return isinstance(value, dict) and set(value) <= set(STAGES[stage].model_fields)


names = st.sampled_from(["seed", "local", "rounds", "rate", "count", "machine"]) | st.text(max_size=4)


@given(st.dictionaries(names, st.integers() | st.dictionaries(names, st.integers(), max_size=2), max_size=3))
@settings(deadline=None, max_examples=50)
def test_a_table_is_accepted_where_all_its_names_are_known(table: dict[str, Any]) -> None:
    assert accepted(table) == all(known(stage, value) for stage, value in table.items())


def test_what_decides_how_and_how_long_is_outside_the_digest() -> None:
    config = Config()
    changed = build(
        {
            "rounds": {"count": 9},
            "store": {"checkpoint_seconds": 1, "features": "all"},
            "machine": {"device": "cpu", "threads": 7, "precision": "fp32"},
            "data": {"workers": 5},
        }
    )
    assert flat(changed) == flat(config)


def test_everything_else_is_inside_the_digest() -> None:
    rows = flat(Config())
    dumped = Config().model_dump()
    outside = {"data.workers", "rounds.count"}
    for stage in STAGES.keys() - {"machine", "store"}:
        for key in dumped[stage]:
            name = f"{stage}.{key}"
            assert (name in rows) == (name not in outside)
    assert rows["seed"] == 0


def test_a_table_read_from_a_file_is_what_was_written(tmp_path: Path) -> None:
    table = {"seed": 4, "local": {"passes": 2.5}}
    (tmp_path / "a.toml").write_text(tomli_w.dumps(table))
    assert read_toml(tmp_path / "a.toml") == table
    assert preset_table("smoke") != table
