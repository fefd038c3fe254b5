"""What convert, live and the APIs of other clients share: work on a voice, lease to result."""

import os

# numpy's matrix library reads this at its first import. Otherwise it starts a thread per processor;
# these threads wait in a busy loop, which costs other conversions more than it helps the small
# matrices of this one.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
