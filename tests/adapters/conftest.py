"""What tests of adapters share: the loop that the bus itself runs on. Those of the client ask for others too."""

import pytest


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
