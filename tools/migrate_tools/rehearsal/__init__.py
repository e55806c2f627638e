"""Rehearsal of a generated example on the CPU: the stand-in Relax, and the GPU step where there is a GPU."""
