"""What a command would end, read from its words alone."""

import shlex
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.protocol.kill_aims import Aims, aims_of
from interlock.protocol.kill_programs import Selection

ALL = "all"  # a selection that leaves nobody out


def shown(aims: Aims) -> list[Any]:
    """Each selection as what is set in it; its words aside."""
    rows = []
    for each in aims.selections:
        said = msgspec.to_builtins(each)
        del said["words"]
        rows.append({name: tuple(value) if isinstance(value, list) else value for name, value in said.items()} or ALL)
    return rows


NODE = {"pattern": "node"}
EXACTLY = {"pattern": "node", "exact": True}
WINDOWS = {**EXACTLY, "folds": True}
FULL = {"pattern": "node", "whole": True}
LISTED = {**FULL, "listed": True}
PORT = {"ports": (3000,)}
PID = {"pids": (4121,)}
FILE = {"pid_files": ("server.pid",)}
UNREAD = "unread"

ROWS: list[tuple[str, Any]] = [
    ("make test", []),
    ("echo pkill node", []),
    ("git commit -m 'kill the server'", []),
    ("npm run kill-port", []),
    ("docker kill web", []),
    ("pkill node", [NODE]),
    ("/usr/bin/pkill -9 node", [NODE]),
    ("pkill -SIGTERM node", [NODE]),
    ("pkill --signal HUP node", [NODE]),
    ("pkill -x node", [EXACTLY]),
    ("pkill -fi node", [{**FULL, "folds": True}]),
    ("pkill -u root -n node", [NODE]),  # narrower than what is read of it
    ("pkill -v node", [ALL]),
    ("pkill -u ann", [ALL]),
    ("pkill -P 55", [{"parents": (55,)}]),
    ("bash -c 'pkill -P $$'", []),
    ("pkill -F server.pid", [FILE]),
    ("pkill -g 55", [{"groups": (55,)}]),
    ("pkill -0 node", []),
    ("pkill --help", []),
    ("killall node", [EXACTLY]),
    ("killall -9 -u ann node python3", [EXACTLY, {"pattern": "python3", "exact": True}]),
    ("killall -r no.e", [{"pattern": "no.e"}]),
    ("killall -I node", [WINDOWS]),
    ("killall -u ann", [ALL]),
    ("killall -s 0 node", []),
    ("killall -l", []),
    ("killall5 -9", [ALL]),
    ("kill 4121", [PID]),
    ("kill -9 4121", [PID]),
    ("kill -s TERM 4121", [PID]),
    ("kill -- -4121", [{"groups": (4121,)}]),
    ("kill -9 -4121", [{"groups": (4121,)}]),
    ("kill -9 -1", [ALL]),
    ("kill -0 4121", []),
    ("kill -l", []),
    ("kill %1", []),
    ("bash -c 'server & kill $!'", []),
    ("bash -c 'server & P=$!; ss -ltn | grep :3000; curl -s x | head -5; kill $P'", []),
    ("bash -c 'lsof -i :3000; cat other.pid; kill $(jobs -p)'", []),
    ("bash -c 'cat > f <<< hi; kill $SERVER_PID'", []),
    ("bash -c 'kill $(cat server.pid)'", [FILE]),
    ("bash -c 'kill $(<server.pid)'", [FILE]),
    ("bash -c 'kill $(head -1 server.pid)'", [FILE]),
    ("bash -c 'P=$(cat server.pid); kill $P'", [FILE]),
    ("bash -c 'cd x && kill $(cat server.pid)'", UNREAD),
    ("bash -c 'kill $(cat $DIR/server.pid)'", UNREAD),
    ("bash -c 'kill $(jq .pid server.json)'", UNREAD),
    ("bash -c 'read p < server.pid; kill $p'", UNREAD),
    ("bash -c 'P=4121; kill $P'", [PID]),
    ("bash -c 'for p in 4121; do kill $p; done'", [PID]),
    ("bash -c 'kill {4121,4122}'", UNREAD),
    ("bash -c 'echo 4121 | xargs kill'", [PID]),
    ("bash -c 'kill $(pgrep node)'", [NODE]),
    ("bash -c 'kill $(pgrep node | head -1)'", [NODE]),
    ("bash -c 'kill `pidof node`'", [EXACTLY]),
    ("bash -c 'P=$(pgrep -f node); kill -9 $P'", [FULL]),
    ("bash -c 'pgrep node | xargs kill -9'", [NODE]),
    ("bash -c 'sudo pgrep node | tr a b | xargs -r kill -9'", [NODE]),
    ("bash -c 'pgrep node | xargs -n1 -I{} kill {}'", [NODE]),
    ("bash -c 'pgrep node | parallel kill'", [NODE]),
    ("parallel kill ::: 4121", [PID]),
    ("bash -c 'for p in $(pgrep node); do kill $p; done'", [NODE]),
    ("bash -c 'pgrep node | while read p; do kill $p; done'", [NODE]),
    ("bash -c 'pgrep node'", []),
    ("bash -c 'ps aux | grep node | grep -v grep | awk \"{print \\$2}\" | xargs kill'", [LISTED]),
    ("bash -c 'ps aux | grep -i \"[n]ode\" | xargs kill'", [{**LISTED, "folds": True}]),
    ("bash -c 'ps aux | grep \"node\\|vite\" | xargs kill'", [LISTED, {**LISTED, "pattern": "vite"}]),
    ("bash -c 'kill $(ps -ef | awk \"/node/ {print \\$2}\")'", [LISTED]),
    ("bash -c 'kill $(ps -C node -o pid=)'", [EXACTLY]),
    ("bash -c 'kill $(ps -C node -o pid=); echo hi | grep -q ok'", [EXACTLY]),
    ("bash -c 'kill $(ps -eo pid)'", UNREAD),
    ("bash -c 'ps -e | grep node$ | xargs kill'", UNREAD),
    ("bash -c 'ps -ef | awk \"\\$8 ~ /node/\" | xargs kill'", UNREAD),
    ("bash -c 'kill -9 $(lsof -t -i:3000)'", [PORT]),
    ("bash -c 'lsof -ti tcp:3000 | xargs kill'", [PORT]),
    ("bash -c 'kill $(lsof -ti:2999-3001)'", [{"ports": (2999, 3000, 3001)}]),
    ("bash -c 'lsof -ti:$PORT | xargs kill'", UNREAD),
    ("bash -c 'lsof -t +D /srv | xargs kill'", UNREAD),
    ("bash -c 'ss -ltnp | grep :3000 | cut -d= -f2 | xargs kill'", [PORT]),
    ("bash -c 'ss -lptn \"sport = :3000\" | grep -o pid=[0-9]* | xargs kill'", [PORT]),
    ("bash -c 'kill $(top -bn1 | awk /node/)'", UNREAD),
    ("lsof -i :3000", []),
    ("fuser -k 3000/tcp", [PORT]),
    ("fuser -k -n tcp 3000", [PORT]),
    ("fuser -v 3000/tcp", []),
    ("fuser -k ./x.db", [{"paths": ("./x.db",)}]),
    ("fuser -km /srv", [ALL]),
    ("npx kill-port 3000", [PORT]),
    ("npx --yes kill-port@2 3000", [PORT]),
    ("pnpm dlx kill-port 3000", [PORT]),
    ("fkill :3000 4121 node", [PORT, PID, EXACTLY]),
    ("env A=1 nohup timeout 5 pkill node", [NODE]),
    ("uv run pkill node", [NODE]),
    ("su root -c 'pkill node'", [NODE]),
    ("bash -lc 'cd x && (pkill node; npm run dev)'", [NODE]),
    ("bash -c 'bash -c \"kill \\$(pgrep node)\"'", [NODE]),
    ("eval 'pkill node'", [NODE]),
    ("find . -name x -exec pkill node ;", [NODE]),
    ("taskkill /F /IM node.exe", [WINDOWS]),
    ("cmd /c taskkill /F /IM node.exe", [WINDOWS]),
    ("taskkill //PID 4121", [PID]),
    ("powershell -Command 'Stop-Process -Name node'", [WINDOWS]),
    ("pwsh -c 'Get-Process node | Stop-Process -Force'", [WINDOWS]),
    ("pwsh -Command 'Stop-Process -Id 4121'", [PID]),
    ("pwsh -c 'kill -Name nod*'", [ALL]),  # to the shells that are known a pattern is files
    ("taskkill /IM nod*", [{**WINDOWS, "pattern": "nod.*"}]),
    ("wmic process where 'name=\"node.exe\"' delete", [ALL]),
    ("fuser -k ²/tcp", [{"paths": ("²/tcp",)}]),
    ("pkill -P ² node", [NODE]),
]


@pytest.mark.parametrize(("text", "expected"), ROWS, ids=[text for text, _ in ROWS])
def test_a_command_line_means_these_processes(text: str, expected: Any) -> None:
    aims = aims_of(shlex.split(text))
    said = UNREAD if aims.unread else shown(aims)
    assert said == expected
    assert aims.for_all == ("sudo" in text)


def test_what_asks_for_anothers_rights_means_everybodys() -> None:
    aims = aims_of(["sudo", "-u", "root", "pkill", "node"])
    assert (shown(aims), aims.for_all) == ([NODE], True)


@pytest.mark.parametrize(
    "text",
    [
        "bash -c 'pkill \"node'", "bash -c '$KILLER pkill node'", "bash -c '$X 4121'", "xargs kill", "bash -s kill",
        "bash -c 'curl -s x | bash' kill",
    ],
)  # fmt: skip
def test_what_cannot_be_read_and_may_end_something_is_said_to_be_so(text: str) -> None:
    assert aims_of(shlex.split(text)).unread


@pytest.mark.parametrize(
    "text", ["bash -c 'echo \"'", "python3 x.py", "ssh host", "bash -c '$PYTHON -m pytest -k killing'"]
)
def test_what_cannot_be_read_and_says_nothing_of_it_is_left_alone(text: str) -> None:
    assert aims_of(shlex.split(text)) == Aims()


def test_a_selection_of_numbers_is_precise_and_no_other_is() -> None:
    assert Selection("kill 1", pids=(1,)).is_precise()
    assert not Selection("pkill x", pattern="x").is_precise()


PIECES = [
    "pkill", "kill", "killall", "xargs", "sudo", "env", "sh", "-c", "bash", "fuser", "lsof", "taskkill",
    "Stop-Process", "powershell", "npx", "find", "awk", "ps", "grep", "cat", "-9", "-f", "-k", "-P", "-F",
    "-g1,2", "--", "-1", "0", "3000/tcp", "-ti:3000", "/IM", "x.exe", "-Name", "{", "}", ";", "|", "(", ")",
    "'", "\"", "`", "$(pgrep", "$((1", "<<E", "\n", "\0", "eval", "case",
]  # fmt: skip


@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=5), max_size=12), st.booleans())
def test_whatever_is_said_it_is_read_or_said_to_be_unread(words: list[str], as_text: bool) -> None:
    aims = aims_of(["sh", "-c", " ".join(words)] if as_text else words)
    assert all(isinstance(each, Selection) and each.words for each in aims.selections)
