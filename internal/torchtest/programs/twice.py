"""Runs a program twice. Between the runs it prints its process id, and waits for a line of input.

Usage: twice.py PROGRAM [ARGUMENT …]
"""

import os
import runpy
import sys

sys.argv.pop(0)
runpy.run_path(sys.argv[0], run_name="__main__")
print("process", os.getpid(), flush=True)
sys.stdin.readline()
runpy.run_path(sys.argv[0], run_name="__main__")
