"""Deterministic tools of migrate-agent: read verl, map its meaning, write Relax, check the result.

Imports go one way: verl -> mapping -> relax -> checks. Nothing here imports migrate_agent or an LLM client.
"""

__version__ = "0.1.0"
