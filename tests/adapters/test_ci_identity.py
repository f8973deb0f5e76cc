"""A runner that lives for one job: by its key the same agent over retries, else a new one each run."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.adapters.shared_bus import shared_bus
from tests.end_to_end.playground import Bus

from interlock.adapters.ci_identity import KEY, keyed_name, names_of_a_run
from interlock.adapters.cli.options import take_options
from interlock.protocol.names import why_not_agent

SECRET = "s3cret-of-this-runner-0815"
GITHUB = {
    "CI": "true",
    "GITHUB_ACTIONS": "true",
    "GITHUB_RUN_ID": "77",
    "GITHUB_RUN_ATTEMPT": "1",
    "GITHUB_JOB": "test",
}


def test_a_key_is_one_name_and_another_key_another() -> None:
    name = keyed_name({KEY: SECRET})
    assert name == keyed_name({KEY: f"{SECRET}\n", "GITHUB_RUN_ID": "78", "HOSTNAME": "other"})
    assert len({name, keyed_name({KEY: f"{SECRET}x"}), keyed_name({KEY: "ü\udcff"})}) == 3
    assert why_not_agent(name) is None
    assert keyed_name({KEY: " \n"}) == keyed_name({}) == ""


@pytest.mark.parametrize(
    ("given", "how"),
    [
        (["--as", "ann", "me"], ("ann", "--as")),
        (["me"], ("bob", "BUS_AGENT")),
    ],
)
def test_a_name_that_was_given_goes_before_the_key(
    given: list[str], how: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BUS_AGENT", "bob")
    monkeypatch.setenv(KEY, SECRET)
    options, _ = take_options(given)
    assert (options.name, options.how) == how


@pytest.mark.parametrize(
    ("environ", "kind"),
    [
        ({}, ""),
        ({"CI": "false"}, ""),
        ({"CI": "0", "GITHUB_RUN_ID": "77"}, ""),
        ({"CI": "1"}, "unnumbered"),
        ({"CI": "true", "GITHUB_ACTIONS": "true"}, "unnumbered"),
        (GITHUB, "run"),
        ({"CI": "true", "GITLAB_CI": "true", "CI_JOB_ID": "5"}, "run"),
        ({"TF_BUILD": "True", "SYSTEM_JOBID": "5"}, "run"),
        ({"JENKINS_URL": "http://ci/", "BUILD_TAG": "jenkins-x-5"}, "run"),
    ],
)
def test_only_ci_makes_names_of_runs(environ: dict[str, str], kind: str) -> None:
    names = names_of_a_run(environ)
    assert [*names] == ([kind] if kind else [])
    assert all(why_not_agent(name) is None for name in names.values())


def test_a_retry_is_another_run_and_a_step_the_same() -> None:
    assert names_of_a_run(GITHUB) == names_of_a_run({**GITHUB, "GITHUB_ACTION": "the next step"})
    assert names_of_a_run(GITHUB) != names_of_a_run({**GITHUB, "GITHUB_RUN_ATTEMPT": "2"})
    assert names_of_a_run({"CI": "1"}) == names_of_a_run({"CI": "1"})


@pytest.fixture(scope="module")
def bus() -> Iterator[Bus]:
    with shared_bus() as shared:
        yield shared


def test_two_runs_with_one_key_are_one_agent_and_the_key_is_in_no_file_and_no_output(bus: Bus) -> None:
    first = bus("request", "machine/one", env={KEY: SECRET, **GITHUB})
    again = bus("--json", "me", env={KEY: SECRET, **GITHUB, "GITHUB_RUN_ATTEMPT": "2"})
    other = bus("--json", "me", env={KEY: "another", **GITHUB})
    ran = bus("run", "--resource", "machine/two", "--", sys.executable, "-c", "print(1)", env={KEY: SECRET})
    wrong = [bus(*words, env={KEY: SECRET}) for words in (["nothing"], ["check", "machine/three"], ["--as", "", "me"])]
    doctor = bus("doctor", env={KEY: SECRET})

    assert again.json["agent"] == keyed_name({KEY: SECRET})
    assert [each["resource"] for each in again.json["tickets"]] == ["machine/one"]
    assert other.json["agent"] == keyed_name({KEY: "another"})
    assert ran.code == 0, ran
    said = [text for done in (first, again, other, ran, doctor, *wrong) for text in (done.out, done.err)]
    assert not [text for text in said if SECRET in text]
    files = [path for path in bus.home.rglob("*") if path.is_file()]
    assert len(files) > 5
    assert not [path for path in files if SECRET.encode() in path.read_bytes()]


def test_without_a_key_a_run_of_ci_is_new_and_nobody_of_the_worktree(bus: Bus, tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    bus.ok("join", "earlier", cwd=tmp_path, env={"BUS_AGENT": "earlier"})
    names = [
        bus("--json", "me", cwd=tmp_path, env={**GITHUB, "GITHUB_RUN_ATTEMPT": attempt}).json["agent"]
        for attempt in ("1", "1", "2")
    ]
    assert names[0] == names[1] == names_of_a_run(GITHUB)["run"]
    assert names[2] not in {names[0], "earlier"}


def test_ci_that_numbers_nothing_is_somebody_for_this_session_only_where_nobody_else_is_found(bus: Bus) -> None:
    done = bus("--json", "me", env={"CI": "true"})
    assert done.json["agent"].startswith("ci-")
    assert done.json["how"] == "the session, in CI"
    assert bus("me").code == 64


def test_a_program_is_named_by_the_key_as_the_command_is(monkeypatch: pytest.MonkeyPatch) -> None:
    from interlock.adapters.client.bus import Bus as Client

    monkeypatch.delenv("BUS_AGENT", raising=False)
    monkeypatch.setenv(KEY, SECRET)
    assert Client().agent == keyed_name(os.environ)
    assert Client("ann").agent == "ann"
