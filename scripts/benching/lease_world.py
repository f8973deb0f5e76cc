"""What agents of a large repository ask leases for: a tree of some depth, with a few crowded directories in it."""

import random

from interlock.protocol.claim import Claim
from interlock.protocol.lease import Lease
from interlock.protocol.outcome import Deadline

TOPS = ("src", "lib", "apps", "packages", "docs", "tools", "tests", "services")
PARTS = ("core", "api", "ui", "auth", "db", "net", "util", "model")
GLOBS = ("*.py", "test_*.py", "*_test.go", "[a-m]*.ts", "file?.md", "**/*.sql", "*/index.ts", "{a,b}*/**")
FLAT, GENERATED = 20_000, 10_000  # names in one directory, of which every other is claimed; globs in another


class LeaseWorld:
    """Args: seed: the same leases each time."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._made = 0

    def lease(self) -> Lease:
        """The next one that somebody wants; it may overlap another."""
        self._made += 1
        until = Deadline("b", self._chance.randrange(10**6))
        agent = f"agent{self._chance.randrange(64)}"
        claims = tuple(self._claim() for _ in range(1 if self._chance.random() < 0.9 else 3))
        return Lease(f"lease{self._made}", agent, claims, incarnation=1, until=until)

    def _claim(self) -> Claim:
        chance = self._chance
        match chance.choices(range(7), (45, 15, 10, 5, 10, 10, 5))[0]:
            case 0:
                return Claim(
                    f"{self._directory(1)}/file{chance.randrange(60)}.{chance.choice(('py', 'ts', 'md', 'go'))}"
                )
            case 1:
                first = chance.randrange(1, 2_000)
                return Claim(f"{self._directory(1)}/file{chance.randrange(60)}.py", first, first + chance.randrange(40))
            case 2:
                return Claim(f"{self._directory(3)}/**")
            case 3:
                return Claim(self._directory(3))
            case 4:
                return Claim(f"{self._directory(2)}/{chance.choice(GLOBS)}")
            case 5:
                return Claim(f"data/flat/record{chance.randrange(FLAT):05}.json")
            case _:
                return Claim(f"generated/part{chance.randrange(GENERATED):04}_*.{chance.choice(('py', 'json'))}")

    def _directory(self, depth: int) -> str:
        depth = max(depth, self._chance.choice((1, 2, 2, 3, 3, 4)))
        parts = (f"{self._chance.choice(PARTS)}{self._chance.randrange(12)}" for _ in range(depth))
        return "/".join((self._chance.choice(TOPS), *parts))
