"""Puts ``tests/`` on the path, so that tests of several folders share ``tiny_runs``; and gives Ctrl-C back its meaning.

A shell starts background jobs with SIGINT ignored, and children inherit that. The tests of interruption need the default.
"""

import signal

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
