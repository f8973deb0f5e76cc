"""The configuration: what is taken, and one sentence with file and line for each thing that is wrong."""

import re

import pytest

from interlock.coordinator.config import KNOWN_HOSTS, Config, parse_config
from interlock.coordinator.toml_values import ConfigError
from interlock.protocol.definition import CommandDefinition, Kind, ServerDefinition, command_of, server_of

SERVER = '[resources.web]\nkind = "server"\nstart = "npm run dev"\n'
POOL = '[resources.web]\nunits = ["1", "2"]\nkind = "server"\nstart = "npm run dev -- --port {unit}"\n'
COMMAND = '[resources.board]\nkind = "command"\nprepare = "./flash"\n'


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


def test_windows_and_spared_daemons_reach_the_server_s_definition() -> None:
    text = '[bus]\nspare = ["watchman", "java  org.gradle.Daemon"]\n' + SERVER + 'terminal = "tmux"\n'
    config = parse_config(text, "bus.toml")
    server = config.resources["machine/web"].server
    assert server is not None
    assert server.terminal == "tmux"
    assert server.spare == config.spare == (("watchman",), ("java", "org.gradle.Daemon"))


def test_builds_of_a_project_are_the_words_that_their_commands_begin_with() -> None:
    config = parse_config('[profiles.build]\ncommands = ["just  build", "scripts/ci"]\n', "bus.toml")
    assert config.builds == (("just", "build"), ("scripts/ci",))


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ('[profiles.build]\ncommands = "make"\n', 2, "must be a list of texts"),
        ('[profiles.build]\ncommands = ["just build", " "]\n', 2, "the first words of a command"),
        (f'[profiles.build]\ncommands = {["x"] * 65}\n', 2, "65 commands are too many, at most 64"),
        ('[profiles.build]\ncomands = []\n', 2, "did you mean 'commands'?"),
        ('[profiles.strict]\ncommands = []\n', 1, "unknown key 'strict'"),
        ("profiles = 1\n", 1, "'profiles' must be a table"),
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
        ('[bus]\nspare = "x"\n', 2, "must be a list of texts"),
        ('[bus]\nspare = ["watchman", ""]\n', 2, "a program's name"),
        ('[bus]\nspare = ["/usr/bin/watchman"]\n', 2, "a program's name"),
        ('[resources.a]\nspare = ["x"]\n', 2, "it belongs under [bus]"),
        (SERVER + 'terminal = "screen"\n', 4, "'screen' is unknown"),
        ('[bus]\nidentity = "tokens"\n', 2, "'tokens' is unknown: \"open\" or \"token\""),
        ('[bus]\ninbox_files = "some"\n', 2, "'some' is unknown"),
        ("[resources]\na = 3\n", 2, "'a' must be a table"),
        ("bus = 3\n", 1, "'bus' must be a table"),
        ('# a shop\n[resources."a b"]\n', 2, "is no resource name"),
        ('[resources."a/b"]\n', 1, "must be a plain name"),
        ('[resources.a]\nkind = "srv"\n', 2, "'srv' is unknown"),
        ('[resources.a]\nkind = "comand"\n', 2, "did you mean 'command'?"),
        ('[resources.a]\nkind = 3\n', 2, "kind = 3 is unknown; lock, server or command"),
        ('[resources.a]\nkind = ["lock"]\n', 2, "is unknown"),
        ('[resources.a]\nkind = "command"\n', 2, "needs one of stop, prepare and verify"),
        (COMMAND + 'start = "x"\n', 4, "unknown key 'start'; known here: env, kind, prepare, repeatable, state_file"),
        (COMMAND + 'step_timeout = "soon"\n', 4, "'soon' is no duration"),
        (COMMAND + 'repeatable = "yes"\n', 4, "repeatable must be true or false"),
        (COMMAND + 'stop = "x {unit}"\n', 4, "there are no units"),
        (COMMAND + 'env = { BUS_HOME = "/x" }\n', 4, "env may not set BUS_HOME"),
        ('[bus]\nrevoke_grace = "0m"\n', 2, "is no duration"),
        ('[bus]\nrevoke_grce = "1s"\n', 2, "did you mean 'revoke_grace'?"),
        ('[bus]\nrevoke_grace = ["1s"]\n', 2, "is no duration"),
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
        (SERVER + 'prepare = 3\n', 4, "prepare must be a text"),
        (SERVER + 'prepar = "npm ci"\n', 4, "did you mean 'prepare'?"),
        (SERVER + 'env = "A=1"\n', 4, "'env' must be a table"),
        (SERVER + 'env = { A = 1 }\n', 4, "A must be a text"),
        (SERVER + 'env = { "A B" = "1" }\n', 4, "no name of a variable"),
        (SERVER + '[resources.web.env]\nBUS_FENCE = "1"\n', 4, "env may not set BUS_FENCE"),
        (SERVER + 'units = ["1", "2"]\n', 3, "start of a pool must hold {unit}"),
        (SERVER + 'url = "http://localhost:{unit}"\n', 4, "there are no units"),
        (POOL + 'url = "http://localhost:3000"\n', 5, "url of a pool must hold {unit}"),
        (POOL + 'health = "http://localhost/ok"\n', 5, "health of a pool must hold {unit}"),
        (POOL + "ports = [3000]\n", 5, "ports of a pool must be texts that hold {unit}"),
        (POOL + 'ports = ["3000"]\n', 5, "ports of a pool must be texts that hold {unit}"),
        (POOL + 'ports = ["x{unit}"]\n', 5, "'x{unit}' is no number for unit '1'"),
        (POOL + 'ports = ["6553{unit}"]\n' + POOL.replace("web", "api") + 'ports = ["6553{unit}"]\n', 10,
         "port 65531 is declared by web unit 1 too"),
        (POOL + 'ports = ["70{unit}", "7{unit}"]\n' + SERVER.replace("web", "api") + "ports = [72]\n", 9,
         "port 72 is declared by web unit 2 too"),
        (POOL + 'ports = ["6999{unit}"]\n', 5, "port 69991 of unit 1 is none"),
        ('[resources.a]\nunits = [""]\n', 2, "each of units needs a name"),
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


def test_a_pool_is_one_definition_from_which_each_unit_s_own_follows() -> None:
    # when
    web = parse_config(
        '[bus]\nrevoke_grace = "0s"\n[resources.web]\nkind = "server"\nunits = ["7081", "7082"]\n'
        'start = "serve --port {unit}"\nprepare = "build {unit}"\nurl = "http://x:{unit}/"\n'
        'ports = ["{unit}", "1{unit}"]\n'
        'env = { LOG = "/tmp/{unit}.log" }\n', "f",
    ).resources["machine/web"]  # fmt: skip
    one = server_of(web, "7081")
    # then
    assert one is not None
    assert (one.start, one.prepare, one.url) == ("serve --port 7081", "build 7081", "http://x:7081/")
    assert (one.ports, one.env) == ((7081, 17081), (("LOG", "/tmp/7081.log"),))
    assert web.revoke_grace_ms == 0
    assert server_of(parse_config(SERVER, "f").resources["machine/web"], "") == ServerDefinition("npm run dev")


def test_the_kind_command_has_its_steps() -> None:
    board = parse_config(
        '[resources.board]\nkind = "command"\nunits = ["a", "b"]\nstop = "off {unit}"\nverify = "ping {unit}"\n'
        'step_timeout = "10s"\nrepeatable = true\nenv = { B = "{unit}" }\n', "f",
    ).resources["machine/board"]  # fmt: skip
    assert command_of(board, "b") == CommandDefinition("off b", "", "ping b", 10_000, True, (("B", "b"),))


def test_more_resources_than_can_be_are_refused_with_both_numbers() -> None:
    text = "".join(f"[resources.r{number}]\n" for number in range(257))
    with pytest.raises(ConfigError, match="257 resources are declared, at most 256"):
        parse_config(text, "bus.toml")
