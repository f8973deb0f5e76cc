"""The doctor: what is wrong in a home, each finding with the one command that mends it. It changes nothing."""
