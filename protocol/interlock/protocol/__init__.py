"""What may be said on the bus, and what it means. Pure: no await, clock, disk, randomness or logging."""
