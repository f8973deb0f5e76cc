"""What is said about leases, as a model reads it after its command: one line, `LEASED L12 …`."""

from interlock.protocol.durations import format_age
from interlock.protocol.lease_messages import Behind, Leased, LeaseEnded, LeaseQueued
from interlock.protocol.visible import unhidden
from interlock.protocol.words import quote


def leased(body: Leased) -> str:
    """Whose it is, until when, and how it is kept."""
    shared = ", shared" if body.shared else ""
    bound = unhidden(body.bound_to)
    until = f"for {_left(body.left_ms)}: bus lease renew {body.lease}" if body.left_ms else f"until {bound} ends"
    note = f"; {unhidden(body.note)}" if body.note else ""
    return f"LEASED {body.lease} {_paths(body.claims)} (fence {body.fence}{shared}) - yours {until}{note}"


def lease_queued(body: LeaseQueued) -> str:
    """Who is in the way."""
    named = ", ".join(map(_behind, body.behind)) or "others"
    more = f" and {body.more} more" if body.more else ""
    left = f"; waits {_left(body.left_ms)} at most" if body.left_ms else ""
    return f"LEASE QUEUED {body.lease} {_paths(body.claims)} - {named}{more}{left}; do not change it yet"


def lease_ended(body: LeaseEnded) -> str:
    """How, and why. What was given back in order needs no reason."""
    if body.how == "released":
        return f"LEASE ENDED {body.lease} {_paths(body.claims)} - given back"
    return f"LEASE ENDED {body.lease} {_paths(body.claims)} - {body.how.replace('_', ' ')}: {unhidden(body.why)}"


def _behind(behind: Behind) -> str:
    has = "waits for" if behind.waits else "has"
    left = f" for {_left(behind.left_ms)} more" if behind.left_ms else ""
    return f"{behind.agent} {has} {_paths(behind.claims)}{left}"


def _paths(claims: tuple[str, ...]) -> str:
    return " ".join(quote(unhidden(each)) for each in claims)


def _left(ms: int) -> str:
    """Rounded up: what was said a moment ago reads as it was said."""
    return format_age(ms + 999)
