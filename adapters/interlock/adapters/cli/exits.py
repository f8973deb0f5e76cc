"""What each verb's exit codes mean; `--help` and the reference show it. The codes of refusals are in `codes.py`."""

MEANINGS = {
    "run": "the command's own code; 124 the wait was too long, 125 the bus failed, 126 the command cannot be executed, "
    "127 it is not found, 128+N it ended by signal N; 64 and 78 before anything is asked or begun",
    "request": "0 it is yours, 75 you have a place in the queue, 77 refused",
    "wait": "0 it is yours, 75 still queued, 77 it was revoked, or the request has ended",
    "check": "0 it is yours now, 77 it is not",
    "release": "0 given back, 77 it was not yours",
    "handover": "0 given back, and that agent is next, 77 it was not yours, 75 somebody waits ahead of it",
    "extend": "0 extended, 77 it is not yours",
    "me": "0",
    "status": "0, 64 there is no such resource",
    "join": "0 joined, 77 somebody else has that name",
    "logs": "0, 77 there is no log of that resource",
    "tail": "0; 75 nothing came within --wait",
    "send": "0 the message is in the inbox, or what was asked of the coordinator is done; 75 queued",
    "inbox": "0, also where nothing is unread; 75 nothing came after --since",
    "up": "0 it runs, also where it ran already; 69, 73, 74 or 78 it did not come up, and why",
    "down": "0 it is down, also where none ran; 75 it is still going down",
    "cancel": "0 out of the queue, 77 you were not in it",
    "restart": "0 it is ready again, 75 it is still starting, 77 it is not yours",
    "task": "0 done, or shown; 75 not now, 77 refused: not yours, outside of its bounds, changed since, or over",
    "lease": "0 it is yours, or done; 75 somebody has a part of it, 77 it is not yours, or over",
    "leases": "0",
    "map": "0; with -f only a signal ends it: 130 Ctrl-C",
    "watch": "130 Ctrl-C",
    "stats": "0",
    "ps": "0; with --stop 0 its tree is gone, 75 not yet, 77 it is not yours, or not under way",
    "guard": "the command's own code; 77 or 69 it was not executed, 126 it cannot be, 127 it is not found",
    "stop-process": "0 it has ended, 75 not yet, 77 it is not shown to be yours, or not there, and nothing was done",
    "policy": "0, 75 it is at another epoch, or the controller is not here, 77 no authority",
    "grant": "0 granted, 75 it is in use, or the policy is another, 77 not its controller, or the ticket has ended",
    "coordinate": "0 done; else that of the code in its error",
    "attach": "as tmux ends; 64 not at a terminal, 69 it has no window, or tmux is not found",
    "leave": "0",
    "agents": "0",
    "ack": "0, 77 there is no such message in your inbox",
    "receipt": "0, 77 there is no such message",
    "outcome": "0 it is established, and record and reality agree; 1 they differ; 77 nothing is on record",
    "backup": "0 the copy is whole, 73 it cannot be written there, or something is there already",
    "verify": "0 no violation, 1 some; 65 the file of leases is wrong, or this clone does not reach back far enough",
    "export": "0, 73 the file cannot be written",
    "recover": "0 it is free, 75 the evidence is shown and nothing was changed, 77 nothing is in doubt, or no terminal",
    "completion": "0, 64 no such shell, 73 a file that bus did not write is in its place",
    "uninstall": "0 removed, or nothing is there; 64 no --yes and no terminal, 75 somebody uses it, or you said no",
    "errors": "0, 64 there is no such code",
    "help": "0, 64 there is no such command",
    "init": "0 written, or shown; 73 there is a bus.toml already",
    "hooks": "0, 73 they cannot be put in or taken away; `run`, which git calls: 0 go on, 77 refused",
    "drift": "0 all that is changed is under leases, 1 something is not",
    "brief": "0",
    "revoke": "0 taken back, 77 nobody has it, or not at a terminal",
    "doctor": "0 nothing is wrong, 1 something is",
    "config": "0 it is right, 78 it is not, and where",
    "token": "0, 64 no such capability, 73 there is one already, 74 it cannot be written, 77 there is none to revoke",
    "forget": "0",
}
EVERYWHERE = (
    "64 wrong usage, 69 no supervisor answers, 74 a read or write failed, 78 the configuration is wrong, 130 Ctrl-C"
)


def line(verb: str) -> str:
    """A verb's exit codes, for the end of its help; empty for one that has none of its own."""
    return f"Exit: {MEANINGS[verb]}." if verb in MEANINGS else ""
