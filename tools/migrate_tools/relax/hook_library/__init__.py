"""The functions that hooks_<algo>.py is put together from.

Each module is ordinary Python, tested against verl's own functions. `migrate_tools.relax.hooks` copies the functions
that a recipe needs, with its numbers in place of the capitals, so that the example depends on nothing of this package.
Torch is imported inside functions only: the reward side of Relax imports hooks in processes that have none.
"""
