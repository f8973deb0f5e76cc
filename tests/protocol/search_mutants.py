"""Machines with one planted fault each: what the search is tested with, and how deep it must go to see it."""

from collections.abc import Callable

import pytest
from tests.protocol import search_faults as faults
from tests.protocol import search_faults_rarer as rarer
from tests.protocol.search_plans import (
    BOARD,
    GRACE,
    LOCK,
    LOCK_HANDED,
    LOCK_LOST,
    POOL,
    POOL_HANDED,
    POOL_LOST,
    PREPARED,
    RUNS,
    TIMES,
    WEB,
    WEB_HANDED,
)
from tests.protocol.search_world import Config

Plant = Callable[[pytest.MonkeyPatch], None]


# (the machine, a plan that shows it, how deep, the promise that it breaks)
MUTANTS: list[tuple[Plant, Config, int, str]] = [
    (faults.forget_a_wake, LOCK, 4, "no free unit with a waiter"),
    (faults.reuse_a_fence, LOCK, 5, "fences grow"),
    (faults.start_before_the_stop, WEB, 7, "nothing is started before the last server is proved gone"),
    (
        faults.grant_without_proof,
        WEB,
        7,
        "(nothing is started before the last server is proved gone|what is in use is not forgotten)",
    ),
    (faults.grant_without_verifying, WEB, 3, "GRANTED: its server lives"),
    (faults.take_from_a_live_owner, LOCK, 6, "nobody alive and answering"),
    (faults.take_from_one_who_answered, LOCK, 6, "nobody alive and answering"),
    (faults.count_polls_in_the_declared_time, TIMES, 6, "nobody alive and answering"),
    (faults.take_after_sleeping, LOCK, 6, "nobody alive and answering"),
    (faults.revoke_under_a_command, RUNS, 5, r"AssertionError\(\)"),
    (faults.lose_a_place, LOCK, 7, "a place keeps its arrival number"),
    (faults.forget_a_remembered_place, RUNS, 7, "a remembered place is kept"),
    (faults.grant_the_absent, LOCK, 9, "an absent ticket is not granted"),
    (faults.overtake, LOCK, 5, "nobody is overtaken"),
    (faults.forget_to_abort, WEB, 3, "a start that nobody wants is aborted"),
    (faults.forget_to_ask, LOCK, 3, "an owner that others wait for is asked"),
    (faults.forget_a_dead_server, WEB, 6, "GRANTED: its server lives|what is idle can be forgotten"),
    (faults.say_granted_while_down, WEB, 6, "GRANTED: its server lives"),
    (faults.forget_commands_in_doubt, RUNS, 6, "the machine knows every command"),
    (faults.forget_steps_in_a_restart, WEB, 3, "after a restart every step"),
    (faults.revoke_under_a_grace, GRACE, 6, "what runs is let be in the grace"),
    (faults.repeat_what_may_not_be, BOARD, 6, "what may not be repeated is not"),
    (faults.skip_the_stop, BOARD, 9, "nothing is started before the last server is proved gone"),
    (faults.skip_the_look, BOARD, 5, "GRANTED: its server lives"),
    (faults.prepare_for_another, PREPARED, 6, "a server starts where it was prepared"),
    (faults.look_at_what_has_died, WEB, 7, "what is stopped or looked at is there"),
    (faults.answer_twice, LOCK, 2, "answered exactly once"),
    (faults.answer_nothing, LOCK, 2, "answered exactly once"),
    (faults.change_without_a_record, LOCK, 6, "restart is replay"),
    (rarer.hand_over_past_the_queue, LOCK_HANDED, 5, "nobody is overtaken by a hand-over"),
    (rarer.hand_over_some_other_unit, POOL_HANDED, 4, "what is handed over is that very unit"),
    (rarer.hand_over_to_nobody, LOCK_HANDED, 3, "who is named has it"),
    (rarer.hand_over_from_another_worktree, WEB_HANDED, 5, "what is handed over is as it stands"),
    (rarer.revoke_without_a_word, LOCK, 3, "whoever loses a hold early is told"),
    (rarer.revoke_in_word_only, LOCK, 3, "what is revoked is over"),
    (rarer.lose_a_doubt_silently, RUNS, 4, "whoever loses a hold early is told"),
    (rarer.recover_under_a_command, LOCK_LOST, 5, "nobody confirms away a living command"),
    (rarer.recover_nothing, RUNS, 5, "a person ends every doubt"),
    (rarer.give_what_is_in_doubt, RUNS, 6, "what needs a recovery is not given|RecoveryRequired|AssertionError"),
    (rarer.give_one_unit_twice, POOL, 3, "AssertionError|live grants never exceed the units"),
    (rarer.forget_the_second_unit, POOL, 3, "no free unit with a waiter"),
    (rarer.end_a_command_on_one_unit_only, POOL_LOST, 5, "the machine knows every command"),
    (rarer.lose_living_commands_with_the_database, LOCK_LOST, 5, "the machine knows every command"),
    (rarer.believe_a_deadline_of_the_last_boot, LOCK_LOST, 6, "nobody alive and answering|what is over"),
    (rarer.let_the_gone_stand, LOCK, 3, "who is gone (stands nowhere|holds nothing)"),
    (rarer.take_late_words, WEB, 3, "what is over changes nothing"),
    (rarer.forget_what_is_in_use, LOCK, 3, "what is in use is not forgotten"),
]
