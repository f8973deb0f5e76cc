"""Who an ephemeral runner is: the same agent over retries by a key, else a new one each run. Standard library only.

    BUS_AGENT_INSTANCE_KEY ─▶ ci-<keyed digest>      stands for a name that was given
    the number of the run  ─▶ ci-<digest>            for whom no process above has joined
    CI alone               ─▶ ci-<digest of the session and this boot>      for whom nothing else is found

The key itself goes nowhere: a name is made of it here, and only the name is said.
"""

import os
from collections.abc import Mapping

KEY = "BUS_AGENT_INSTANCE_KEY"
DIGEST_BYTES = 10  # 80 bits: nobody meets another's name by chance
KEYED, NUMBERED = b"interlock:key", b"interlock:run"  # a digest of one kind is none of the other
# What numbers a run, by the variable that says whose it is; all are new at a retry, and the same in all steps.
RUNS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("GITHUB_ACTIONS", ("GITHUB_RUN_ID", "GITHUB_RUN_ATTEMPT", "GITHUB_JOB", "RUNNER_TRACKING_ID")),
    ("GITLAB_CI", ("CI_JOB_ID",)),
    ("BUILDKITE", ("BUILDKITE_JOB_ID",)),
    ("CIRCLECI", ("CIRCLE_WORKFLOW_JOB_ID", "CIRCLE_BUILD_NUM", "CIRCLE_NODE_INDEX")),
    ("TF_BUILD", ("SYSTEM_JOBID", "SYSTEM_JOBATTEMPT", "BUILD_BUILDID")),
    ("JENKINS_URL", ("BUILD_TAG",)),
)
NO = {"", "0", "false", "no", "off"}


def keyed_name(environ: Mapping[str, str]) -> str:
    """The name that the instance key stands for; "" where none is set. White space around it is a secret file's."""
    key = environ.get(KEY, "").strip()
    return f"ci-{_digest(KEYED, key)}" if key else ""


def names_of_a_run(environ: Mapping[str, str]) -> dict[str, str]:
    """What a hello says of the run besides, so that nobody in CI is somebody of an earlier run.

    Returns:
        `run`: the name of a run that has a number; or `unnumbered`: one for the session, where only CI is known; or
        nothing outside of CI.
    """
    for whose, numbers in RUNS:
        said = [environ.get(each, "") for each in numbers]
        if environ.get(whose, "").lower() not in NO and any(said):
            return {"run": f"ci-{_digest(NUMBERED, chr(0).join([whose, *said]))}"}
    if environ.get("CI", "").lower() in NO:
        return {}
    return {"unnumbered": f"ci-{_digest(NUMBERED, _session())}"}


def _digest(kind: bytes, text: str) -> str:
    """A digest that only who has the text can make; of the text it tells nothing."""
    from hashlib import blake2b, sha512  # not for those who have no key

    key = sha512(text.encode("utf-8", "surrogateescape")).digest()
    return blake2b(kind, key=key, digest_size=DIGEST_BYTES).hexdigest()


def _session() -> str:
    """This session, this boot; where the system does not say, as much of it as it does."""
    leader = os.getsid(0)
    words = [str(leader), os.uname().nodename]
    for path, field in (("/proc/sys/kernel/random/boot_id", 0), (f"/proc/{leader}/stat", 19)):
        try:
            with open(path, "rb") as file:
                words.append(file.read().rpartition(b")")[2].split()[field].decode())
        except (OSError, IndexError):
            words.append("")
    return "\0".join(words)
