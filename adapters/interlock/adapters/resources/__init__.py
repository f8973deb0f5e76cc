"""The kinds of resource whose hand-over takes work: one file a kind."""
