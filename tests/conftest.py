"""For its place alone: it puts ``tests/`` on the path, so that tests of several folders share ``tiny_runs``."""
