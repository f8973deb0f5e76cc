"""A repository as leases see it: what was changed, by git itself; who may change it, as the bus says."""
