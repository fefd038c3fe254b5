"""The conversion container: a recording goes in, the character's voice comes out."""

import os

# Read when numpy is first imported. Its matrix library would start a thread for every processor,
# and they wait in a loop: for one conversion's small matrices they take more from the others than
# they give.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
