"""Odd and hostile inputs: what is made, how it is run, and what came of it."""

import os
import sys

for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "HF_HUB_OFFLINE", "ARROW_IO_THREADS"):
    os.environ.setdefault(_name, "1")  # before anything is imported: a forked process has no threads, and no network

sys.dont_write_bytecode = True  # a module that is imported late would write a file
