"""Policies, as people and models use them: who is covered, who grants, what is reserved, and what a change does."""

import json
import signal
from collections.abc import Callable
from typing import Any

import pytest
from tests.end_to_end.conftest import Home
from tests.end_to_end.playground import BUS, Bus, Follower, alive
from tests.end_to_end.terminal import at_terminal
from tests.end_to_end.test_gate import CONTROL, KEY, Held, a_policy, ticket_of, under_way

Follow = Callable[[], Follower]


def coordinate(bus: Bus, agent: str, **request: Any) -> dict[str, Any]:
    done = bus("coordinate", json.dumps(request), agent=agent)
    result: dict[str, Any] = json.loads(done.out)
    assert (done.code == 0) == ("error" not in result), done
    return result


def test_policy_request_grant_and_run_as_a_model_does_it(bus: Bus, home: Home, follow: Follow) -> None:
    # given a controller and two workers
    home.write(CONTROL)
    bus.ok("up")
    log = follow()
    for name in ("boss", "worker-a", "worker-b"):
        bus.ok("join", name)
    done = coordinate(
        bus, "boss", operation="set_controller", resource=KEY, controller="boss", participants=["worker-a", "worker-b"],
        profile="build",
    )  # fmt: skip
    assert done["epoch"] == 1
    # when a worker asks, the controller reads of it by its cursor, and grants
    asked = coordinate(bus, "worker-a", operation="request", resource=KEY, reason="Build the reviewed app revision")
    (letter,) = [
        json.loads(line)
        for line in bus.ok("--json", "inbox", "--since", "0", "--wait", "30s", agent="boss").splitlines()
    ]
    assert "Build the reviewed app revision" in letter["text"]
    assert f"bus grant {asked['requestId']} --epoch 1" in letter["text"]
    shown = bus.ok("status", KEY)
    assert f"{KEY}: boss grants it to 2 participants (epoch 1)" in shown
    assert f"1. worker-a: bus grant {asked['requestId']} --epoch 1" in shown
    done = coordinate(bus, "boss", operation="grant", requestId=asked["requestId"], epoch=1)
    assert done["holder"] == "worker-a"
    # then its build runs under that grant, which is over once the build is
    show = ("sh", "-c", 'test "$BUS_RESOURCE" = machine/xcodebuild && make --version >/dev/null; echo built')
    assert bus.ok("run", "--", *show, agent="worker-a") == "built\n"
    log.until("released", agent="worker-a")
    # and what is no build needs no grant, nor does a build of somebody else
    assert bus.ok("run", "--wait", "0", "--", "echo", "free", agent="worker-a") == "free\n"
    assert bus("run", "--wait", "0", "--", "make", "--version", agent="other").code == 0
    # and who may not, may not
    error = coordinate(bus, "worker-a", operation="grant", requestId=asked["requestId"])["error"]
    assert error["code"] == "CAPABILITY_DENIED"


@pytest.mark.parametrize("text", ["status", "[]", '{"operation": NaN}', "{" * 70_000])
def test_whoever_coordinates_reads_json_whatever_it_said(bus: Bus, home: Home, text: str) -> None:
    done = bus("coordinate", text, agent="a")
    assert done.code in {64, 65}
    assert set(json.loads(done.out)["error"]) == {"code", "message"}


def test_bus_run_asks_by_itself_waits_for_its_grant_and_says_who_grants(bus: Bus, home: Home, follow: Follow) -> None:
    # given
    home.write(CONTROL)
    bus.ok("up")
    log = follow()
    epoch = a_policy(bus, "ann", "bob")
    # when two ask
    runs = {name: bus.start("run", "--", "echo", f"ran {name}", agent=name) for name in ("ann", "bob")}
    requests = {name: ticket_of(bus, name, log) for name in runs}
    for run in runs.values():
        assert "boss" in run.err.until("waiting: ")
    agents = {each["agent"]: each for each in bus("--json", "agents").json["agents"]}
    assert agents["ann"]["state"] == agents["bob"]["state"] == "waiting_resource"
    # then the one that is granted runs, though the other may have come first
    bus.ok("grant", requests["bob"], "--epoch", str(epoch), agent="boss")
    assert runs["bob"].end().out == "ran bob\n"
    assert runs["ann"].out.seen == []
    refused = bus("grant", requests["ann"], "--epoch", str(epoch + 1), agent="boss")
    assert (refused.code, "STALE_POLICY" in refused.err) == (75, True)
    bus.ok("grant", requests["ann"], agent="boss")
    assert runs["ann"].end().out == "ran ann\n"
    assert bus("grant", requests["ann"], agent="boss").code == 77


def test_a_policy_that_comes_while_commands_run_waits_for_them(bus: Bus, home: Home, follow: Follow) -> None:
    # given one that runs without any policy
    home.write(CONTROL)
    bus.ok("up")
    log, early = follow(), Held(bus.folder, "early")
    running = bus.start("run", "--", *early.words, agent="ann")
    running.out.until("inside early")
    # when
    a_policy(bus, "ann", "bob")
    (command,) = under_way(bus)
    # then it is a visible blocker, and goes on
    assert command["blocks"] == [KEY]
    assert command["launch"] in bus.ok("policy")
    waiting = bus.start("run", "--", "echo", "later", agent="bob")
    request = ticket_of(bus, "bob", log)
    refused = bus("grant", request, agent="boss")
    assert (refused.code, "RESOURCE_BUSY" in refused.err) == (75, True), refused
    assert waiting.out.seen == []
    # when it has ended
    early.let_go()
    assert running.end().code == 7
    bus.ok("grant", request, agent="boss")
    # then
    assert waiting.end().out == "later\n"


def test_a_policy_that_changes_while_one_runs_and_three_wait(bus: Bus, home: Home, follow: Follow) -> None:
    """Started work stays; who is still enrolled keeps its place, and asks under what is true now by itself."""
    # given
    home.write(CONTROL)
    bus.ok("up")
    log, held = follow(), Held(bus.folder, "held")
    before = a_policy(bus, "ann", "bob", "cat", "dan")
    running = bus.start("run", "--", *held.words, agent="ann")
    bus.ok("grant", ticket_of(bus, "ann", log), agent="boss")
    running.out.until("inside held")
    waiting = {}
    for name in ("bob", "cat", "dan"):
        waiting[name] = bus.start("run", "--", "echo", name, agent=name)
        log.until("requested", agent=name)
    # when dan is no participant any more
    epoch = a_policy(bus, "ann", "bob", "cat")
    # then dan's command needs nothing any more, and runs
    assert waiting["dan"].end().out == "dan\n"
    # and the others go on waiting, while the one that runs is let run
    assert [each["command"] for each in under_way(bus)] == ["sh"]
    held.let_go()
    assert running.end().code == 7
    queue = bus.status(KEY)["queue"]
    assert [each["agent"] for each in queue] == ["bob", "cat"]
    for each in queue:
        bus.ok("grant", each["request_id"], "--epoch", str(epoch), agent="boss")
        done = waiting[each["agent"]].end()
        assert done.out == f"{each['agent']}\n", done
    # and fences and epochs only grow
    fences = [event["fence"] for event in log.all("granted")]
    assert fences == sorted(set(fences))
    assert epoch > before
    # and whoever is not enrolled, and names it, is refused
    refused = bus("run", "-r", KEY, "--", "true", agent="dan")
    assert (refused.code, "SCOPE_DENIED" in refused.err) == (125, True), refused


def test_a_run_that_waits_for_the_rest_of_its_set_keeps_what_it_has(bus: Bus, home: Home, follow: Follow) -> None:
    """It lives and waits, however much longer than a grant lasts that nobody uses; who comes later waits for it."""
    # given
    home.write('[bus]\nreservation = "600ms"\n')
    bus.ok("up")
    log = follow()
    bus.tell("other", "REQUEST machine/zzz - mine")
    both = ("run", "-r", "machine/zzz", "-r", "machine/aaa", "--", "echo")
    ann = bus.start(*both, "ran ann", agent="ann")
    log.until("requested", agent="ann", actor="machine/zzz")
    bob = bus.start(*both, "ran bob", agent="bob")
    log.until("requested", agent="bob")
    # when it has asked for longer than that: every 200 ms
    after = 0
    for _ in range(8):
        after = log.until("armed", after=after, actor="machine/aaa")["seq"]
    assert log.all("revoked") == []
    bus.tell("other", "RELEASE machine/zzz")
    # then both in order, each with all of it
    assert [run.end().out for run in (ann, bob)] == ["ran ann\n", "ran bob\n"]
    assert [each["agent"] for each in log.all("granted")] == ["other", "ann", "ann", "bob", "bob"]
    assert log.all("revoked") == []


def test_a_reservation_that_is_over_is_asked_for_again_without_a_word(bus: Bus, home: Home, follow: Follow) -> None:
    """Its wrapper was stopped, so that nothing said that it is waited with."""
    # given
    home.write('[bus]\nreservation = "600ms"\n')
    bus.ok("up")
    log = follow()
    bus.tell("other", "REQUEST machine/zzz - mine")
    run = bus.start("run", "-r", "machine/aaa", "-r", "machine/zzz", "--", "echo", "ran", agent="ann")
    log.until("requested", agent="ann", actor="machine/zzz")
    # when the first is taken back
    run.kill(signal.SIGSTOP)
    log.until("revoked", agent="ann", code="RESERVATION_EXPIRED")
    run.kill(signal.SIGCONT)
    bus.tell("other", "RELEASE machine/zzz")
    # then
    done = run.end()
    assert (done.code, done.out) == (0, "ran\n"), done
    assert [line for line in done.err.splitlines() if "waiting" not in line and "JOINED" not in line] == [], done


def test_sets_that_are_named_in_another_order_never_wait_for_each_other(bus: Bus, home: Home) -> None:
    # given
    bus.ok("up")
    names = ["machine/a", "machine/b", "machine/c"]
    orders = [names, names[::-1], [names[1], names[2], names[0]], [names[2], names[0], names[1]]]
    # when
    runs = [
        bus.start("run", *[word for name in order for word in ("-r", name)], "--", "echo", "ran", agent=f"agent-{each}")
        for each, order in enumerate(orders)
    ]
    # then
    assert [run.end().out for run in runs] == ["ran\n"] * len(runs)
    assert [bus.status(name)["state"] for name in names] == ["free"] * 3


@pytest.mark.parametrize("how", ["revoked by a person", "the policy taken away"])
def test_a_command_whose_hold_was_taken_is_never_killed_and_the_next_waits_for_its_tree(
    bus: Bus, home: Home, follow: Follow, how: str
) -> None:
    # given
    home.write(CONTROL)
    bus.ok("up")
    log, held = follow(), Held(bus.folder, "held")
    a_policy(bus, "ann", "bob")
    running = bus.start("run", "--", *held.words, agent="ann")
    bus.ok("grant", ticket_of(bus, "ann", log), agent="boss")
    running.out.until("inside held")
    (command,) = under_way(bus)
    # when
    if how == "revoked by a person":
        assert at_terminal(bus, "revoke", KEY, "--because", "I need it").code == 0
    bus.ok("policy", "clear", KEY, agent="boss")
    next_ = bus.start("run", "-r", KEY, "--", "echo", "next", agent="bob")
    log.until("requested", agent="bob")
    # then
    assert alive(command["processes"][0]["pid"])
    assert next_.out.seen == []
    held.let_go()
    assert running.end().code == 7
    assert next_.end().out == "next\n"
    assert log.until("granted", agent="bob")["seq"] > log.until("finished", agent="ann")["seq"]


def test_a_ticket_of_ones_own_is_run_under_by_its_id(bus: Bus, home: Home, follow: Follow) -> None:
    # given
    home.write(CONTROL)
    bus.ok("up")
    a_policy(bus, "ann")
    asked = coordinate(bus, "ann", operation="request", resource=KEY)["requestId"]
    run = bus.start("run", "--ticket", asked, "--", "sh", "-c", "echo $BUS_RESOURCE", agent="ann")
    run.err.until("waiting: ")
    # when
    bus.ok("grant", asked, agent="boss")
    # then
    assert run.end().out == f"{KEY}\n"
    # and it is over
    done = bus("run", "--ticket", asked, "--", "true", agent="ann")
    assert (done.code, "TARGET_ENDED" in done.err) == (125, True), done


def test_of_two_alike_at_once_one_uses_what_was_granted_and_the_other_waits_for_its_own(
    bus: Bus, home: Home, follow: Follow
) -> None:
    # given
    home.write(CONTROL)
    bus.ok("up")
    log, held = follow(), Held(bus.folder, "alike")
    a_policy(bus, "ann")
    asked = coordinate(bus, "ann", operation="request", resource=KEY)["requestId"]
    bus.ok("grant", asked, agent="boss")
    # when
    runs = [bus.start("run", "--", *held.words, agent="ann") for _ in range(2)]
    # then
    first = log.until("admitted", agent="ann")
    other = log.until("requested", agent="ann", where=lambda event: bool(event["ticket"].get("run")))
    assert len(under_way(bus)) == 1
    held.let_go()
    log.until("command_finished", agent="ann")
    bus.ok("grant", other["ticket"]["request_id"], agent="boss")
    log.until("admitted", agent="ann", after=first["seq"])
    held.let_go()
    assert [run.end().code for run in runs] == [7, 7]
    assert (
        len(log.all("requested")) == 2
    )  # that of ann herself, and one: it has waited, and not asked anew all the time


def test_stop_is_for_its_owner_and_says_what_it_did(bus: Bus, home: Home) -> None:
    # given
    bus.ok("up")
    held = Held(bus.folder, "held")
    run = bus.start("run", "-r", KEY, "--", *held.words, agent="ann")
    run.out.until("inside held")
    (command,) = under_way(bus)
    launch, pid = command["launch"], command["processes"][0]["pid"]
    # when
    denied, unknown = bus("ps", "--stop", launch, agent="bob"), bus("ps", "--stop", "run-1-abcdef", agent="ann")
    # then
    assert (denied.code, "NOT_HOLDER" in denied.err, alive(pid)) == (77, True, True)
    assert (unknown.code, "TARGET_ENDED" in unknown.err) == (77, True)
    # when
    done = bus("ps", "--stop", launch, agent="ann")
    # then
    assert (done.code, f"STOPPED {launch}, sh of ann" in done.out) == (0, True), done
    assert not alive(pid)
    assert run.end().code == 128 + 15
    assert "no command of bus run is under way" in bus.ok("ps")


def test_a_command_inside_a_participants_goes_under_what_that_has(bus: Bus, home: Home, follow: Follow) -> None:
    """Its own build, and that of a subagent which it starts, need no grant of their own and do not wait for it."""
    # given
    home.write(CONTROL)
    bus.ok("up")
    log = follow()
    a_policy(bus, "ann")
    inner = f"{BUS} run -- sh -c 'echo inner $BUS_FENCE'; {BUS} --as sub run -- sh -c 'echo sub $BUS_FENCE'"
    run = bus.start("run", "--wait", "20s", "--", "sh", "-c", f"echo outer $BUS_FENCE; {inner}", agent="ann")
    # when
    bus.ok("grant", ticket_of(bus, "ann", log), agent="boss")
    # then
    done = run.end()
    fence = log.all("granted")[0]["fence"]
    assert done.out == f"outer {fence}\ninner {fence}\nsub {fence}\n", done
    assert len(log.all("granted")) == 1
