"""The steps of Algorithm 1, each a stage: pure functions of ``relations`` and ``learning``, saved under their inputs' digest.

``algorithm.py`` calls them in the paper's order. A stage's digest holds its inputs' digests, the keys that it reads and its
version, never the device, the threads or the number of rounds; so a run resumes by skipping what is there.
"""
