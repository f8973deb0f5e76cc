"""How the world reaches the coordinator, and how it reaches the world: one file a door, a store or a resource."""
