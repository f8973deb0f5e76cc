"""Git by its files: which repository, which main worktree, and who only pretends. Nothing of it is executed."""

import subprocess
from pathlib import Path

import pytest

from interlock.adapters.git import place_of
from interlock.coordinator.repositories import repository_id


def git(place: Path, *words: str) -> None:
    identity = ["-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "commit.gpgsign=false"]
    env = {"PATH": "/usr/bin:/bin:/usr/local/bin", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", *identity, "-C", str(place), *words], check=True, capture_output=True, env=env)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with a linked worktree, and everything else that git makes of one."""
    root = tmp_path_factory.mktemp("git").resolve()
    main = root / "main"
    main.mkdir()
    git(main, "init", "-q", "-b", "main")
    git(main, "commit", "-q", "--allow-empty", "-m", "x")
    git(main, "worktree", "add", "-q", str(root / "linked"))
    git(main, "worktree", "add", "-q", str(main / ".worktrees" / "inside"))
    git(root, "clone", "-q", "--bare", str(main), str(root / "around" / ".bare"))
    (root / "around" / ".git").write_text("gitdir: ./.bare\n")
    git(root / "around", "worktree", "add", "-q", str(root / "around" / "feature"), "-b", "feature")
    git(root, "init", "-q", "--separate-git-dir", str(root / "apart.git"), str(root / "apart"))
    git(root, "clone", "-q", "--bare", str(main), str(root / "server.git"))
    git(root / "server.git", "worktree", "add", "-q", str(root / "of-server"), "-b", "y")
    git(main, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(root / "main"), "sub")
    (main / "folder").mkdir()
    return root


@pytest.mark.parametrize(
    ("directory", "worktree", "common", "main", "listed"),
    [
        ("main", "main", "main/.git", "main", True),
        ("main/folder", "main", "main/.git", "main", True),
        ("linked", "linked", "main/.git", "main", True),
        ("main/.worktrees/inside", "main/.worktrees/inside", "main/.git", "main", True),
        ("around", "around", "around/.bare", "around", True),
        ("around/feature", "around/feature", "around/.bare", "around", True),
        ("apart", "apart", "apart.git", "apart", False),  # its git directory does not say where it is used
        ("of-server", "of-server", "server.git", "", True),
        ("main/sub", "main/sub", "main/.git/modules/sub", "main/sub", True),
    ],
)
def test_every_layout_has_its_repository(
    root: Path, directory: str, worktree: str, common: str, main: str, listed: bool
) -> None:
    place = place_of(str(root / directory))
    assert place is not None
    assert place.common == str(root / common)
    assert place.id == repository_id(str(root / common).encode())
    assert place.worktree == str(root / worktree)
    assert place.main == (str(root / main) if main else "")
    assert place.listed is listed


def test_it_is_what_git_itself_says(root: Path) -> None:
    for name in ("main", "linked", "around/feature", "main/sub"):
        said = subprocess.run(
            ["git", "-C", str(root / name), "rev-parse", "--path-format=absolute", "--git-common-dir"],
            check=True, capture_output=True, text=True,
        ).stdout.strip()  # fmt: skip
        place = place_of(str(root / name))
        assert place is not None
        assert place.common == said


def test_a_folder_that_only_says_so_is_not_listed(root: Path) -> None:
    liar = root / "liar"
    liar.mkdir()
    for claim in (root / "main" / ".git", root / "main" / ".git" / "worktrees" / "linked", root / "around" / ".bare"):
        (liar / ".git").write_text(f"gitdir: {claim}\n")
        place = place_of(str(liar))
        assert place is not None
        assert not place.listed
        assert place.main != str(liar)
    (liar / ".git").unlink()
    (liar / ".git").symlink_to(root / "main" / ".git")
    place = place_of(str(liar))
    assert place is not None
    assert not place.listed


@pytest.mark.parametrize(
    "said",
    [
        b"", b"gitdir:", b"gitdir: ", b"nonsense", b"gitdir: " + b"x" * 20_000, b"gitdir: \0", b"gitdir: /dev/zero",
        b"\xff\xfe", b"gitdir: ../..",
    ],
)  # fmt: skip
def test_a_git_file_that_leads_nowhere_is_no_repository(tmp_path: Path, said: bytes) -> None:
    (tmp_path / ".git").write_bytes(said)
    assert place_of(str(tmp_path)) is None


def test_an_empty_git_folder_and_a_relative_path_are_none(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    assert place_of(str(tmp_path)) is None
    assert place_of("relative") is None
    assert place_of("/nowhere/at/all") is None
    assert place_of("/with\0nul") is None


def test_nothing_that_a_repository_configures_is_run(root: Path, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    ran = tmp_path / "ran"
    with (tmp_path / ".git" / "config").open("a") as config:
        config.write(f'[core]\n\tfsmonitor = "touch {ran}"\n\thooksPath = {tmp_path}\n\tpager = touch {ran}\n')
    assert place_of(str(tmp_path)) is not None
    assert not ran.exists()
