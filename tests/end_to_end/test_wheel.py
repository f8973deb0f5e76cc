"""What is shipped: the wheel runs in an empty environment, whatever PYTHONPATH holds, and the sdist builds the same."""

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.end_to_end.conftest import Home
from tests.end_to_end.playground import ROOT, Bus, Done

BUILD_S = 120.0  # with a package index far away
UV = Path(sys.executable).with_name("uv")
THEIRS = ("protocol", "adapters", "coordinator")


def build(source: Path, to: Path, *targets: str) -> list[Path]:
    words = [word for target in targets for word in ("-t", target)]
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(to), *words], cwd=source, check=True,
        capture_output=True, timeout=BUILD_S,
    )  # fmt: skip
    return sorted(to.iterdir())


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheel and the sdist, by their endings."""
    return {path.suffix: path for path in build(ROOT, tmp_path_factory.mktemp("dist"), "wheel", "sdist")}


class Installed(Bus):
    """The command as `uvx` runs it from the wheel, in an environment that has nothing else."""

    def __init__(self, bus: Bus, wheel: Path) -> None:
        super().__init__(bus.folder)
        self.wheel = wheel
        self.started = bus.started

    def run(self, *words: str, offline: bool = True) -> Done:
        index = os.environ.get("PIP_INDEX_URL")
        settings = {"UV_NO_PROGRESS": "1", **({"UV_DEFAULT_INDEX": index} if index else {})}
        kept = {name: value for name, value in os.environ.items() if name.startswith(("UV_", "SSL_", "HTTP", "http"))}
        cache = {"UV_CACHE_DIR": os.environ.get("UV_CACHE_DIR") or os.path.expanduser("~/.cache/uv")}
        done = subprocess.run(
            [str(UV), "tool", "run", *(["--offline"] if offline else []), "--python", sys.executable,
             "--from", str(self.wheel), *words],
            env={**self.environment, **kept, **cache, **settings}, cwd=self.folder, text=True, capture_output=True,
            timeout=BUILD_S, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        return Done(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def installed(bus: Bus, home: Home, shipped: dict[str, Path]) -> Iterator[Installed]:
    installed = Installed(bus, shipped[".whl"])
    done = installed.run("bus", "--version", offline=False)
    if done.code and any(word in done.err for word in ("dns error", "error sending request", "Failed to fetch")):
        pytest.skip("no package index can be reached, and nothing of it is in the cache")
    assert done.out.startswith("interlock "), done
    yield installed
    installed.run("bus", "down", "--stop-servers")


@pytest.mark.slow
def test_the_wheel_runs_in_an_empty_environment_whatever_pythonpath_holds(bus: Bus, installed: Installed) -> None:
    # given: what repositories have, each of which would say so if it were imported
    theirs = bus.folder / "theirs"
    for name in THEIRS:
        (theirs / name).mkdir(parents=True)
        (theirs / name / "__init__.py").write_text("raise SystemExit('theirs was imported')\n")
    installed.environment["PYTHONPATH"] = str(theirs)
    # then
    assert installed.run("bus", "up").code == 0
    done = installed.run("bus", "--as", "A", "request", "machine/x", "--no-wait")
    assert (done.code, "GRANTED machine/x" in done.out) == (0, True), done
    done = installed.run("bus", "--as", "B", "run", "--resource", "machine/y", "--", "echo", "ran")
    assert (done.code, done.out) == (0, "ran\n"), done
    assert json.loads(installed.run("bus", "--json", "status").out)["resources"]
    supervisor = Path(f"/proc/{bus.supervisor()}/exe")
    assert not supervisor.exists() or (ROOT / ".venv") not in supervisor.readlink().parents


def test_an_interlock_of_somebody_else_is_kept_out_by_isolation(bus: Bus) -> None:
    """A package of our own name on PYTHONPATH comes before us: nothing of ours runs then. `-I` leaves it out."""
    (bus.folder / "interlock").mkdir()
    (bus.folder / "interlock" / "__init__.py").write_text("raise SystemExit('theirs was imported')\n")
    done = subprocess.run(
        [sys.executable, "-I", "-m", "interlock", "--version"], env={**bus.environment, "PYTHONPATH": str(bus.folder)},
        cwd=bus.folder, text=True, capture_output=True, check=False,
    )  # fmt: skip
    assert done.stdout.startswith("interlock "), done


def test_the_wheel_holds_the_three_packages_and_the_sdist_builds_the_same(
    shipped: dict[str, Path], tmp_path: Path
) -> None:
    # given
    with zipfile.ZipFile(shipped[".whl"]) as wheel:
        names = set(wheel.namelist())
    subprocess.run(["tar", "-xzf", str(shipped[".gz"]), "-C", str(tmp_path)], check=True)  # tarfile differs by release
    (unpacked,) = tmp_path.iterdir()
    # then: typed, with the keeper, open for its namespace, and nothing beside it
    packages = [f"interlock/{name}" for name in ("protocol", "coordinator", "adapters")]
    keeper = {
        str(path.relative_to(ROOT / "adapters")) for path in (ROOT / "adapters/interlock/adapters/keeper").glob("*.py")
    }
    assert {f"{package}/py.typed" for package in packages} | keeper <= names
    assert "interlock/__init__.py" not in names
    assert {name.partition("/")[0] for name in names} == {
        "interlock",
        shipped[".whl"].name.rpartition("-py3")[0] + ".dist-info",
    }
    # then: whoever packages it can test it
    for part in ("tests/end_to_end/test_wheel.py", "scripts/test", "docs/adr", "README.md", "pyproject.toml"):
        assert (unpacked / part).exists(), part
    # when
    (again,) = build(unpacked, tmp_path / "again", "wheel")
    # then
    with zipfile.ZipFile(again) as wheel:
        assert set(wheel.namelist()) == names
