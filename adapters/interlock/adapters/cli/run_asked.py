"""What the command line of `bus run` asks for, and what of its command the bus is told: never its arguments."""

from __future__ import annotations

import os
import sys

from interlock.adapters.cli.options import Failure, milliseconds

USAGE = (
    "bus run [--resource R]… [--lease PATH]… [--shared] [--task ID] [--ticket ID] [--time D] [--wait D] [--for WHY] "
    "[--if-unavailable fail|run] -- COMMAND…"
)
VALUED = {"--resource", "--lease", "--task", "--ticket", "--time", "--wait", "--for", "--if-unavailable"}
PLAIN = {"--shared"}
SHORT = {"-r": "--resource"}
KEYS = ("machine/", "repository/")
RESOURCES_MAX = 64  # of one command: what the bus takes of one
LEASES_MAX = 64  # paths: what one lease can have


class Asked:
    """One command line. Raises Failure 64 where it is wrong."""

    def __init__(self, words: list[str]) -> None:
        """Args: words: after `bus run`."""
        given, self.words = _divide(words)
        if not self.words:
            raise Failure(64, f"say which command: {USAGE}")
        named = (each for option, value in given if option == "--resource" for each in value.split(","))
        self.resources = list(dict.fromkeys(filter(None, named)))
        if self.words[0].startswith(KEYS) and "--" in self.words:
            raise Failure(64, f"did you mean bus run --resource {self.words[0]} {' '.join(self.words[1:3])} …?")
        if len(self.resources) > RESOURCES_MAX:
            raise Failure(64, f"{len(self.resources)} resources are named, one command can have {RESOURCES_MAX}")
        self.leases = list(dict.fromkeys(value for option, value in given if option == "--lease"))
        if len(self.leases) > LEASES_MAX:
            raise Failure(64, f"{len(self.leases)} paths are to be leased, one command can have {LEASES_MAX}")
        last = dict(given)
        self.shared = "--shared" in last
        if self.shared and not self.leases:
            raise Failure(64, f"--shared is of a lease: {USAGE}")
        self.task = last.get("--task", "")
        self.ticket = last.get("--ticket", "")
        self.time_ms = milliseconds(last.get("--time", ""), "--time")
        self.wait_ms = 0 if last.get("--wait") in {"0", "0s"} else milliseconds(last.get("--wait", ""), "--wait")
        self.program = os.path.basename(self.words[0]) or self.words[0]
        self.purpose = (last.get("--for") or self.program)[:1024]
        unavailable = last.get("--if-unavailable", "fail")
        if unavailable not in {"fail", "run"}:
            raise Failure(64, f"--if-unavailable {unavailable} is unknown: say fail or run")
        self.runs_anyway = unavailable == "run"
        self.recognised = True  # until it is looked at

    def look(self, builds: list[list[str]]) -> None:
        """Whether it is a build. Args: builds: words that those begin with which only the configuration knows."""
        from interlock.protocol.profiles import recognise

        self.recognised = recognise(self.words, builds, folded=sys.platform == "darwin")

    def digest(self, directory: str) -> str:
        """Of the exact command and the directory: neither can hold a NUL, so no two have the same words."""
        from _blake2 import blake2b

        return blake2b(b"\0".join(map(os.fsencode, [*self.words, directory])), digest_size=16).hexdigest()


def inside() -> list[str]:
    """Launches that this was started in, outermost first."""
    return [launch for launch in os.environ.get("BUS_LAUNCH", "").split(":") if launch]


def fences() -> dict[str, int]:
    """Key → fence that this was started under; "" where only one is known, of whatever it is."""
    keys, numbers = (os.environ.get(name, "").split(",") for name in ("BUS_RESOURCES", "BUS_FENCES"))
    found = {key: int(fence) for key, fence in zip(keys, numbers, strict=False) if key and fence.isdigit()}
    one = os.environ.get("BUS_FENCE", "")
    return found or ({"": int(one)} if one.isascii() and one.isdigit() else {})


# --- straight helpers -------------------------------------------------------------------------
def _divide(words: list[str]) -> tuple[list[tuple[str, str]], list[str]]:
    """Our own options with their values, and the command: what stands behind `--`, or behind them."""
    given: list[tuple[str, str]] = []
    at = 0
    while at < len(words) and words[at].startswith("-"):
        if words[at] == "--":
            return given, words[at + 1 :]
        option, equals, value = words[at].partition("=")
        option = SHORT.get(option, option)
        if option in PLAIN and not equals:
            given.append((option, ""))
            at += 1
            continue
        if option not in VALUED:
            raise Failure(64, f"unknown option {words[at]}: {USAGE}")
        if not equals:
            at += 1
            if at == len(words):
                raise Failure(64, f"{option} needs a value: {USAGE}")
            value = words[at]
        if not value:  # such as "$NAME" that nobody set
            raise Failure(64, f"{option} is empty: give it a value, or leave it out")
        given.append((option, value))
        at += 1
    return given, words[at:]
