"""action.yml and .pre-commit-hooks.yaml, their steps run as a runner and as the pre-commit framework would."""

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests import scratch
from tests.adapters.hooked import Repo, says_leases
from tests.end_to_end.playground import WAIT_S

from interlock.adapters.territory.hook_text import CHECKED

ROOT = Path(__file__).parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
HOOKS = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
KEY = "key-of-the-runner-4711"
BUS = """#!/bin/sh
printf '%s' "bus" >> "$LOG"; printf ' [%s]' "$@" >> "$LOG"; printf ' %s\\n' "${BUS_AGENT_INSTANCE_KEY:+keyed}" >> "$LOG"
case "$*" in
*acquire*held*) echo '{"error": {"code": "LEASE_WAIT_TIMEOUT", "message": "held is held by b"}}'; exit 75;;
*acquire*) echo '{"lease": "L-1", "claims": ["src/**"], "fence": 7}';;
*verify*bad*) exit 1;;
esac
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    with scratch.folder() as made:
        yield made


class Runner:
    """A runner with a composite action: each step whose `if` holds, after a failure only those of always()."""

    def __init__(self, folder: Path, **inputs: str) -> None:
        (folder / "bin").mkdir()
        (folder / "bin/bus").write_text(BUS)
        (folder / "bin/bus").chmod(0o755)
        self.log = folder / "log"
        self._output = folder / "output"
        self._folder = folder
        given = {name: str(each.get("default", "")) for name, each in ACTION["inputs"].items()}
        self._facts = {f"inputs.{name}": value for name, value in (given | inputs).items()}
        self._facts |= {"env.BUS_AGENT_INSTANCE_KEY": "", "github.action_path": str(ROOT)}
        self.codes: dict[str, int] = {}
        self.said = ""

    def run(self) -> "Runner":
        for step in ACTION["runs"]["steps"]:
            condition = step.get("if", "success()").removeprefix("${{").removesuffix("}}").strip()
            failed = any(self.codes.values())
            if (failed and "always()" not in condition) or not self._holds(condition):
                continue
            self._step(step)
        return self

    def called(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []

    def _step(self, step: dict[str, Any]) -> None:
        self._output.write_text("")
        script = self._folder / "step.sh"
        script.write_text(step["run"])
        env = {
            "PATH": f"{self._folder / 'bin'}:{os.environ['PATH']}", "GITHUB_OUTPUT": str(self._output),
            "LOG": str(self.log), "HOME": str(self._folder),
        } | {name: self._value(text) for name, text in step.get("env", {}).items()}  # fmt: skip
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", str(script)], env=env, cwd=self._folder,
            capture_output=True, text=True, timeout=WAIT_S, check=False,
        )  # fmt: skip
        self.codes[step["name"]] = done.returncode
        self.said += done.stdout + done.stderr + self._output.read_text()
        for line in self._output.read_text().splitlines():
            name, _, value = line.partition("=")
            self._facts[f"steps.{step['id']}.outputs.{name}"] = value

    def _value(self, text: str) -> str:
        return re.sub(r"\$\{\{(.+?)\}\}", lambda found: self._first(found[1]), text)

    def _first(self, expression: str) -> str:
        return next((value for name in expression.split("||") if (value := self._facts.get(name.strip(), ""))), "")

    def _holds(self, condition: str) -> bool:
        terms = [each.strip() for each in condition.split("&&")]
        return all(each in {"always()", "success()"} or self._is_set(each) for each in terms)

    def _is_set(self, term: str) -> bool:
        name, unequal, nothing = term.partition(" != ")
        assert (unequal, nothing) == (" != ", "''"), f"teach this runner {term!r}"
        return bool(self._facts.get(name, ""))


def test_the_steps_acquire_run_verify_and_give_back_and_the_key_is_nowhere(folder: Path) -> None:
    inputs = {
        "claims": "src/**\nsp ace $(touch pwned)\r\n-x\n\n", "run": 'echo "$LEASE"; bus me', "base": "origin/main",
        "instance-key": KEY, "purpose": 'a "fix"',
    }  # fmt: skip
    runner = Runner(folder, **inputs).run()
    assert {*runner.codes.values()} == {0}
    assert runner.called() == [
        'bus [--json] [lease] [acquire] [--ttl] [10m] [--wait] [10m] [--for] [a "fix"] [--] [src/**] '
        "[sp ace $(touch pwned)] [-x] keyed",
        "bus [me] keyed",
        "bus [verify] [--base] [origin/main] keyed",
        "bus [lease] [release] [L-1] keyed",
    ]
    assert "L-1\n" in runner.said
    assert not (folder / "pwned").exists()
    assert not [path for path in folder.rglob("*") if path.is_file() and KEY in path.read_text()]
    assert KEY not in runner.said


@pytest.mark.parametrize(
    ("inputs", "fails", "last"),
    [
        ({"run": "exit 3"}, {"Run": 3}, "bus [lease] [release] [L-1] "),
        ({"run": "false | true"}, {"Run": 1}, "bus [lease] [release] [L-1] "),
        ({"base": "bad"}, {"Verify": 1}, "bus [lease] [release] [L-1] "),
        ({"claims": "held", "run": "touch ran"}, {"Acquire": 75}, "bus [--json] [lease] [acquire] "),
        ({"claims": "", "run": "touch ran"}, {"Acquire": 64}, ""),
        ({"base": "m", "leases": "leases.json"}, {}, "bus [lease] [release] [L-1] "),
    ],
)
def test_what_fails_fails_the_job_and_what_was_acquired_is_given_back(
    folder: Path, inputs: dict[str, str], fails: dict[str, int], last: str
) -> None:
    runner = Runner(folder, **{"claims": "src/**"} | inputs).run()
    assert {name: code for name, code in runner.codes.items() if code} == fails
    assert (runner.called() or [""])[-1].startswith(last)
    assert not (folder / "ran").exists()
    if "leases" in inputs:
        assert "bus [verify] [--base] [m] [--leases] [leases.json] " in runner.called()
    if inputs.get("claims") == "held":
        assert "held is held by b" in runner.said


def test_no_input_is_part_of_a_script_and_each_that_is_used_is_declared() -> None:
    """An expression in a script is code that whoever wrote the input has written."""
    text = (ROOT / "action.yml").read_text()
    assert not [step["name"] for step in ACTION["runs"]["steps"] if "${{" in step["run"]]
    assert {*re.findall(r"inputs\.([a-z-]+)", text)} == {*ACTION["inputs"]}
    assert all(step["shell"] == "bash" for step in ACTION["runs"]["steps"])


def test_the_hooks_of_the_framework_are_ours_and_say_what_the_others_say(folder: Path) -> None:
    repo = Repo(folder / "r", folder / "bus")
    repo.commit("one", "x")
    repo.write("held", "x")
    entries = {each["stages"][0]: shlex.split(each["entry"]) for each in HOOKS}
    assert {*entries} == {*CHECKED}
    with says_leases(repo.home) as bus:
        bus.lease("b", "held")
        warned = _framework(repo, entries["pre-commit"])
        refused = _framework(repo, [*entries["pre-commit"], "--mode", "hard_fail"])
        repo.git("commit", "-qm", "held")
        recorded = _framework(repo, entries["post-commit"])
        head, base = (repo.git("rev-parse", name).out.strip() for name in ("HEAD", "HEAD~"))
        refs = {"PRE_COMMIT_FROM_REF": base, "PRE_COMMIT_TO_REF": head, "PRE_COMMIT_REMOTE_NAME": "origin"}
        pushed = _framework(repo, [*entries["pre-push"], "--mode", "hard_fail"], **refs)
        assert [kind["type"] for _, kind in bus.asked] == ["TERRITORY", "TERRITORY", "RECORD_COMMIT", "TERRITORY"]
        assert bus.asked[2][1]["commit"] == head
    assert [done.returncode for done in (warned, refused, recorded, pushed)] == [0, 77, 0, 77]
    assert all("bus: held is held by b" in done.stderr for done in (warned, refused, pushed))


def _framework(repo: Repo, words: list[str], **env: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        words, cwd=repo.folder, env={**repo.environment, "BUS_AGENT": "a", **env}, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=WAIT_S, check=False,
    )  # fmt: skip
