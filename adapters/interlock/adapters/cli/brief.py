"""`bus brief`: to come."""


def command() -> int:
    return 0
