"""The hand-over of a real server between real worktrees, and all that can be in its way."""

from collections.abc import Callable

from tests.end_to_end.conftest import Home
from tests.end_to_end.playground import Bus, Follower, Repository, executions, fetch, server_config


def test_a_server_goes_from_one_worktree_to_the_next(
    bus: Bus, home: Home, port: int, repository: Repository, follow: Callable[[], Follower]
) -> None:
    # given
    home.write(server_config(port))
    one, two = repository.worktrees(2)
    bus.ok("up")
    log = follow()
    # when
    first = bus.ok("request", "server-loop", "--wait", "20s", cwd=one, agent="A")
    # then
    assert first.splitlines()[-1].startswith(f"GRANTED server-loop http://127.0.0.1:{port}/")
    assert fetch(port) == repository.page(one)
    # when
    assert bus("request", "server-loop", cwd=two, agent="B").code == 75
    bus.ok("release", agent="A")
    log.until("granted", agent="B")
    # then
    assert fetch(port) == repository.page(two)
    assert (executions(one), executions(two)) == (1, 1)
    assert log.is_whole()
