"""What clients ask about tasks (`to: supervisor`), and what is answered; `control.py` has the other questions."""

from typing import Any

import msgspec


# --- asked --------------------------------------------------------------------------------
class AskTasks(msgspec.Struct, frozen=True, omit_defaults=True, tag="TASKS"):
    """A page of tasks, those that are not over first, each in a row.

    Args: mine: that the asker assigned, works on or accepts. all: those that are over too. after: id of the last seen.
    """

    mine: bool = False
    all: bool = False
    after: str = ""


class AskTask(msgspec.Struct, frozen=True, omit_defaults=True, tag="TASK_RECORD"):
    """All that is on record of one. `look`: and its reported files as they are now."""

    task: str
    look: bool = False


# --- answered -----------------------------------------------------------------------------
class TasksReply(msgspec.Struct, frozen=True, omit_defaults=True, tag="TASKS_REPLY"):
    """Args: more: there are others after these."""

    tasks: tuple[dict[str, Any], ...]
    more: bool = False


class TaskReply(msgspec.Struct, frozen=True, tag="TASK_REPLY"):
    task: dict[str, Any]


TaskControl = AskTasks | AskTask
TaskAnswer = TasksReply | TaskReply
