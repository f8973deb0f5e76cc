"""`bus forget`: to come."""


def command() -> int:
    return 0
