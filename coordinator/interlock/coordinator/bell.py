"""A bell: rung by anybody, heard by one task. An event of anyio costs more than its message where each makes one."""

import anyio
from anyio.lowlevel import checkpoint


class Bell:
    """It stays rung until it is heard."""

    def __init__(self) -> None:
        self.is_rung = False
        self._waits: anyio.Event | None = None

    def ring(self) -> None:
        self.is_rung = True
        if self._waits is not None:
            self._waits.set()

    async def heard(self) -> None:
        """Wait until it has been rung since it was last heard. Others have their turn in any case."""
        if self.is_rung:
            await checkpoint()
        else:
            self._waits = anyio.Event()
            try:
                await self._waits.wait()
            finally:
                self._waits = None
        self.is_rung = False

    def silence(self) -> None:
        """As if it had not been rung."""
        self.is_rung = False
