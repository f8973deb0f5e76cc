"""`bus init`: to come."""


def command() -> int:
    return 0
