"""The work on a voice, from the lease to the stored result."""

import os

# numpy's matrix library reads this at its first import. Otherwise it starts a thread per processor;
# these threads wait in a busy loop, which costs other conversions more than it helps the small
# matrices of this one.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
