"""A synthetic tree in the layout of verl 0.1 forks: manager class and scorer selection inside main_ppo."""

__version__ = "0.1.0.dev"
