"""The keeper: a launch's shim, a program of its own. `__main__` tells how it is run, and what it promises."""
