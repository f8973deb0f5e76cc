"""The configuration: what is taken, and one sentence with file and line for each thing that is wrong."""

import re

import pytest

from interlock.coordinator.config import KNOWN_HOSTS, Config, ConfigError, parse_config
from interlock.protocol.definition import Kind

SERVER = '[resources.web]\nkind = "server"\nstart = "npm run dev"\n'


def test_nothing_said_is_every_default() -> None:
    assert parse_config("", "bus.toml") == Config()


def test_what_is_said_is_taken() -> None:
    # when
    config = parse_config(
        '[bus]\npoll_every = "300ms"\nclaim = "1h30m"\nhosts = ["my-agent"]\n\n'
        '[resources.gpu]\nunits = ["0", "1"]\n\n'
        '[resources.web]\nkind = "server"\nstart = "npm run dev"\nurl = "http://localhost:7080"\n'
        'health = "http://localhost:7080/ok"\nready_line = "Step 3/3"\nports = [7080]\nstart_timeout = "5m"\n',
        "bus.toml",
    )
    # then
    assert (config.poll_every, config.claim) == (300, 5_400_000)
    assert config.hosts == {*KNOWN_HOSTS, "my-agent"}
    assert config.resources["machine/gpu"].units == ("0", "1")
    web = config.resources["machine/web"]
    assert web.kind is Kind.SERVER
    assert web.server is not None
    assert (web.server.start, web.server.ports, web.server.start_timeout_ms) == ("npm run dev", (7080,), 300_000)


def test_a_start_command_alone_makes_a_server() -> None:
    assert parse_config('[resources.web]\nstart = "x"\n', "f").resources["machine/web"].kind is Kind.SERVER


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ('[bus]\npoll_evry = "3m"\n', 2, "did you mean 'poll_every'?"),
        ('[bus]\n\npoll_every = "3 lightyears"\n', 3, "'3 lightyears' is no duration"),
        ('[bus]\nkeep = 3\n', 2, "3 is no duration"),
        ('[bus]\nkeep = "0s"\n', 2, "is no duration"),
        ('[bus]\nkeep = "-1m"\n', 2, "is no duration"),
        ("[bus]\nkeep = nan\n", 2, "is no duration"),
        ("[buss]\n", 1, "did you mean 'bus'?"),
        ("a = 1\nx=\n", 2, "not TOML"),
        ('[bus]\nkeep = "30d', 2, "not TOML"),
        ("[bus]\n[bus]\n", 2, "not TOML"),
        ('[bus]\nhosts = "x"\n', 2, "must be a list of texts"),
        ('[bus]\ninbox_files = "some"\n', 2, "'some' is unknown"),
        ("[resources]\na = 3\n", 2, "'a' must be a table"),
        ("bus = 3\n", 1, "'bus' must be a table"),
        ('# a shop\n[resources."a b"]\n', 2, "is no resource name"),
        ('[resources."a/b"]\n', 1, "must be a plain name"),
        ('[resources.a]\nkind = "srv"\n', 2, "'srv' is unknown"),
        ('[resources.a]\nkind = "command"\n', 2, "not in this version"),
        ('[resources.a]\nkind = "lock"\nurl = "http://x"\n', 3, "unknown key 'url'"),
        ('[resources.a]\nkind = "server"\n', 1, "needs a start command"),
        ('[resources.a]\nkind = "server"\nstart = "  "\n', 3, "needs a start command"),
        (SERVER + 'stopt_timeout = "1s"\n', 4, "did you mean 'stop_timeout'?"),
        (SERVER + 'url = "localhost:3000"\n', 4, "no http address"),
        (SERVER + 'health = "ftp://x"\n', 4, "no http address"),
        (SERVER + "ports = [0]\n", 4, "from 1 to 65535"),
        (SERVER + "ports = [80, 80]\n", 4, "different numbers"),
        (SERVER + "ports = [true]\n", 4, "numbers from 1 to 65535"),
        (SERVER + 'ports = ["80"]\n', 4, "numbers from 1 to 65535"),
        (SERVER + 'start_timeout = "soon"\n', 4, "'soon' is no duration"),
        (SERVER + 'prepare = "npm ci"\n', 4, "not in this version"),
        (SERVER + 'units = ["1", "2"]\n', 4, "one server a port"),
        (SERVER + "ports = [80]\n" + SERVER.replace("web", "api") + "ports = [80]\n", 8, "declared by web too"),
        ('[resources.a]\nunits = ["1", "1"]\n', 2, "units must be different"),
        ('[resources.a]\nunits = ["../x"]\n', 2, "must be a name"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_line(text: str, line: int, says: str) -> None:
    # when
    with pytest.raises(ConfigError) as raised:
        parse_config(text, "bus.toml")
    # then
    sentence = str(raised.value)
    assert says in sentence
    assert re.match(rf"bus\.toml:{line}: ", sentence), sentence
    assert "\n" not in sentence


def test_more_resources_than_can_be_are_refused_with_both_numbers() -> None:
    text = "".join(f"[resources.r{number}]\n" for number in range(257))
    with pytest.raises(ConfigError, match="257 resources are declared, at most 256"):
        parse_config(text, "bus.toml")
