"""What a folder says of itself: how its server is started, and where it answers. Files are read, none is ever run."""
