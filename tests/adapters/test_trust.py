"""The trust store: a person's word for one content of one file. A wrong one is one sentence, and trusts nothing."""

import json
import os
from pathlib import Path

import pytest

from interlock.adapters.configuration import Here, clashes
from interlock.adapters.paths import Home
from interlock.adapters.trust import NAME, LocalRepositories
from interlock.coordinator.config import Config, parse_config
from interlock.coordinator.repositories import Repositories, Trusted, declared, digest
from interlock.coordinator.toml_values import ConfigError
from interlock.protocol.limits import REPOSITORIES_TRUSTED_MAX, REPOSITORY_CONFIG_BYTES_MAX

ID = "ab" * 16
KEY = f"repository/{ID}/web"
TOML = b'[resources.web]\nstart = "run"\n'


@pytest.fixture
def files(tmp_path: Path) -> LocalRepositories:
    home = Home(tmp_path / "home")
    home.create()
    return LocalRepositories(home)


@pytest.fixture
def toml(tmp_path: Path) -> Path:
    path = tmp_path / "bus.toml"
    path.write_bytes(TOML)
    return path


def word(toml: Path, id_: str = ID) -> Trusted:
    return Trusted(id_, str(toml.parent / ".git"), str(toml), digest(TOML), "2026-01-01T00:00:00.000Z")


def test_a_word_is_kept_replaced_and_taken_back(files: LocalRepositories, toml: Path) -> None:
    files.trust(word(toml))
    files.trust(word(toml, "cd" * 16))
    files.trust(word(toml))
    assert [each.id for each in files.trusted()] == ["cd" * 16, ID]
    assert files.store.stat().st_mode & 0o777 == 0o600
    files.distrust([ID])
    assert [each.id for each in files.trusted()] == ["cd" * 16]
    assert not [name for name in os.listdir(files.store.parent) if name.startswith(f".{NAME}")]


def test_a_port_of_a_pool_that_another_file_declares_is_noted(files: LocalRepositories) -> None:
    pool = '[resources.pool]\nkind = "server"\nunits = ["7081", "7082"]\nstart = "x {unit}"\nports = ["{unit}"]\n'
    own = parse_config('[resources.web]\nstart = "x"\nports = [7082]\n', "bus.toml")
    here = Here(Home(files.store.parent), files, own, own, (), None)
    mine = {"pool": parse_config(pool, "bus.toml").resources["machine/pool"]}
    assert clashes(mine, here, ID) == [
        "note: port 7082 of pool is declared by machine/web too: only one of them can run at a time"
    ]


def test_a_path_that_is_no_unicode_comes_back_as_it_was(files: LocalRepositories, tmp_path: Path) -> None:
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b'/\xff\n"quoted'))
    odd.mkdir()
    (odd / "bus.toml").write_bytes(TOML)
    files.trust(word(odd / "bus.toml"))
    assert KEY in Repositories(files, Config()).load().resources


@pytest.mark.parametrize(
    "content",
    [b"", b"garbage", b"{}", b"[]", b"null", b'{"version": 1}', b'{"version": 1, "repositories": 3}', b"[" * 100_000,
     b'{"version": 1, "repositories": [{}]}', b'{"version": 2, "repositories": []}', b"\xff\xfe",
     b'{"version": 1, "repositories": [{"id": "a", "common": "b", "file": "relative", "sha256": "", "at": ""}]}',
     b" " * (5 << 20)],
)  # fmt: skip
def test_garbage_is_one_sentence_and_trusts_nothing(files: LocalRepositories, content: bytes) -> None:
    files.store.write_bytes(content)
    with pytest.raises(ConfigError) as raised:
        files.trusted()
    assert len(str(raised.value).splitlines()) == 1
    repositories = Repositories(files, Config())
    assert not repositories.load().resources
    assert str(files.store) in repositories.problem
    assert repositories.config().is_suspended(KEY)  # nor is it said to be taken back
    assert not repositories.config().is_suspended("machine/web")
    with pytest.raises(ConfigError):  # nor is a damaged one overwritten
        files.trust(word(Path("/x/bus.toml")))
    assert files.store.read_bytes() == content


def test_no_link_is_followed(files: LocalRepositories, toml: Path, tmp_path: Path) -> None:
    files.trust(word(toml))
    real = tmp_path / "real"
    files.store.rename(real)
    files.store.symlink_to(real)
    with pytest.raises(ConfigError, match="symbolic link"):
        files.trusted()
    real.rename(tmp_path / "again")
    os.replace(tmp_path / "again", files.store)
    moved = tmp_path / "moved"
    toml.rename(moved)
    toml.symlink_to(moved)
    config = Repositories(files, Config()).load()
    assert not config.resources
    assert "symbolic link" in config.suspended[ID]


def test_what_was_trusted_stays_in_force_while_the_store_is_damaged(files: LocalRepositories, toml: Path) -> None:
    files.trust(word(toml))
    repositories = Repositories(files, Config())
    assert KEY in repositories.load().resources
    files.store.write_bytes(b"garbage")
    assert repositories.is_stale()
    assert KEY in repositories.load().resources
    assert "stays in force" in repositories.problem
    toml.write_bytes(TOML + b"\n")  # but not what has changed
    assert KEY not in repositories.load().resources


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (TOML + b"#", "has changed since it was trusted"),
        (b"", "has changed since it was trusted"),
        (TOML.replace(b"run", b"rum"), "has changed since it was trusted"),
        (b" " * (REPOSITORY_CONFIG_BYTES_MAX + 1), "more than"),
        (None, "is gone"),
    ],
)
def test_a_change_counts_at_once_and_taking_it_back_too(
    files: LocalRepositories, toml: Path, change: bytes | None, why: str
) -> None:
    files.trust(word(toml))
    repositories = Repositories(files, Config())
    assert KEY in repositories.load().resources
    assert not repositories.refresh(ID)
    toml.unlink() if change is None else toml.write_bytes(change)
    assert repositories.refresh(ID)
    config = repositories.config()
    assert KEY not in config.resources
    assert why in config.suspended[ID]
    assert config.is_suspended(KEY)
    toml.write_bytes(TOML)
    assert repositories.refresh(ID)
    assert KEY in repositories.config().resources
    assert not repositories.config().suspended


def test_what_is_no_file_any_more_does_not_count_and_holds_nobody_up(files: LocalRepositories, toml: Path) -> None:
    files.trust(word(toml))
    repositories = Repositories(files, Config())
    for make in (os.mkfifo, os.mkdir):
        toml.unlink()
        make(toml)
        assert "no regular file" in repositories.load().suspended[ID]
        toml.rmdir() if toml.is_dir() else toml.unlink()
        toml.touch()


def test_the_homes_times_hold_for_a_repositorys_resources() -> None:
    home = Config(poll_every=7, claim=8)
    [found] = declared(TOML, "f", ID, home).values()
    assert (found.poll_ms, found.claim_ms) == (7, 8)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b'[bus]\npoll_every = "1s"\n', "f:1: [bus] settings of the bus stand in its home's bus.toml only"),
        (b"\xff", "not UTF-8"),
        (b"[resources.a]\nb = " + b"9" * 5000, "nested too deep"),
        (b"a = " + b"{a = " * 5000, "nested too deep"),
        (b"a." * 100 + b"a = 1", "f:1: more than 64 dots in one line"),
        ("\n".join(['"\u2028".' * 100 + "a = 1"]).encode(), "more than 64 dots"),
        (b"[resources.a]\nstrat = 1\n", "f:2: "),
        (b'[resources."\\u001b[2J\\nREVOKED web"]\n', "is no resource name"),
        (b'[resources."' + b"x" * 30_000 + b'"]\n', "f:1: "),
        (b'[resources.a]\n"\\u0007\\n" = 1\n', "unknown key"),
    ],
)
def test_what_a_repository_may_not_say_is_one_sentence(data: bytes, says: str) -> None:
    with pytest.raises(ConfigError) as raised:
        declared(data, "f", ID, Config())
    assert says in str(raised.value)
    assert str(raised.value).isprintable()
    assert len(str(raised.value)) <= 500


def test_past_the_limit_the_newcomer_is_refused(files: LocalRepositories, toml: Path) -> None:
    rows = [word(toml, f"{number:032x}") for number in range(REPOSITORIES_TRUSTED_MAX)]
    with files._list.alone() as write:
        write(rows)
    with pytest.raises(ConfigError, match="no more can be"):
        files.trust(word(toml))
    files.trust(rows[0])
    assert len(json.loads(files.store.read_bytes())["repositories"]) == REPOSITORIES_TRUSTED_MAX
