from __future__ import annotations

import tomllib

import pytest

from reliant.config import Config, build, load, preset_about, preset_names, preset_table, to_toml
from reliant.errors import ConfigError


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_builds_and_survives_toml(name: str) -> None:
    config = load(name)
    assert isinstance(config, Config)
    assert build(tomllib.loads(to_toml(config))) == config


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_says_what_it_is_and_costs(name: str) -> None:
    about = preset_about(name)
    assert set(about) == {"title", "command", "hardware", "cost", "score"}
    assert all(text.strip() and "\n" not in text for text in about.values())
    assert about["command"].startswith("reliant fit ")
    assert f"--preset {name}" in about["command"] or name == "small"


@pytest.mark.parametrize("name", preset_names())
def test_a_preset_fits_its_network(name: str) -> None:
    config = load(name)
    assert config.network.size <= config.data.size
    assert config.neighbours.k >= config.groups.cap - 1


def test_presets_have_titles_of_their_own() -> None:
    titles = [preset_about(name)["title"] for name in preset_names()]
    assert len(set(titles)) == len(titles)


def test_what_a_preset_says_of_itself_is_no_key() -> None:
    assert all("about" not in preset_table(name) for name in preset_names())


def test_a_misspelt_preset_names_the_nearest() -> None:
    with pytest.raises(ConfigError) as caught:
        load("smal")
    assert str(caught.value) == "unknown preset 'smal'; did you mean 'small'?"


def test_an_unknown_preset_lists_all() -> None:
    with pytest.raises(ConfigError) as caught:
        preset_about("zzzzzz")
    assert str(caught.value) == f"unknown preset 'zzzzzz'; allowed: {', '.join(preset_names())}"
