"""Who runs the machines: actors, supervisor, timer, journal, configuration. Knows no socket, file or process."""
