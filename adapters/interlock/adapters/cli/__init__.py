"""The command `bus`: one file a verb."""
