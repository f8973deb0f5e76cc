"""Why a verification cannot be made."""


class Problem(Exception):
    """One sentence that says what happened and what to do next, and the command's exit code."""

    def __init__(self, exit_code: int, why: str) -> None:
        super().__init__(why)
        self.exit_code = exit_code
