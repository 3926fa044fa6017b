"""A secrets.json that is gone: nothing is begun anew beside what only its keys open."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from benchlab.up import command, database, ports, postgres, state
from benchlab.up.state import State
from benchlab.up.trouble import Trouble


@pytest.fixture(autouse=True)
def no_key(monkeypatch):
    for name in ("BENCHLAB_KEY", "BENCHLAB_KEY_FILE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def place():
    # Not pytest's tmp_path, which PostgreSQL's own user may not enter.
    with tempfile.TemporaryDirectory(prefix="benchlab-lost-") as name:
        yield Path(name)


def lose(here: State) -> None:
    (here.path / "secrets.json").unlink()


def test_a_database_beside_them_is_not_given_a_new_key(place):
    here = State(place)
    here.create()
    first = state.load_secrets(here)
    postgres.make_cluster(postgres.plan(here))
    lose(here)
    with pytest.raises(Trouble, match=rf"secrets\.json is gone.*{place}/postgres.*backup"):
        database.base_environment(here)
    assert not (place / "secrets.json").exists()
    state.write_json(place / "secrets.json", first)
    assert state.load_secrets(here) == first


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's database may be elsewhere")
def test_a_database_elsewhere_is_named(place, monkeypatch):
    closed, elsewhere = place / "closed", place / "elsewhere"
    monkeypatch.setattr(postgres, "ELSEWHERE", elsewhere)
    here = State(closed / "state")
    here.create()
    closed.chmod(0o700)
    cluster = postgres.plan(here)
    assert elsewhere in cluster.data.parents
    lose(here)
    monkeypatch.setenv("BENCHLAB_KEY", "one of the environment's")  # does not tell where it is
    with pytest.raises(Trouble, match=rf"{cluster.data.parent} cannot be found again"):
        postgres.plan(here)
    assert [one.name for one in elsewhere.iterdir()] == [cluster.data.parent.name]


def test_a_database_of_somebody_else_is_thought_of(place):
    here = State(place)
    ports.kept_port(here, "ssh")
    with pytest.raises(Trouble, match="stored in its database"):
        state.load_secrets(here)


def test_with_a_key_of_the_environment_the_rest_is_made_anew(place, monkeypatch):
    (place / "postgres").mkdir()
    monkeypatch.setenv("BENCHLAB_KEY", "k")
    assert state.load_secrets(State(place))["REDIS_PASSWORD"]


def test_a_file_without_the_key_is_damaged(place):
    state.write_json(place / "secrets.json", {"SECRET_KEY": "s"})
    with pytest.raises(Trouble, match="restore it"):
        state.load_secrets(State(place))


def test_down_still_works(place, monkeypatch, capsys):
    (place / "postgres").mkdir()
    monkeypatch.setenv("BENCHLAB_STATE", str(place))
    assert command.run(["manage.py", "down"]) == 0
    assert capsys.readouterr().out == "BenchLab is not running.\n"
    assert not (place / "secrets.json").exists()
