"""The agent and its front ends: command line, LangGraph graph, reports."""

from migrate_tools import __version__

__all__ = ["__version__"]
