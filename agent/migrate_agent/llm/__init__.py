"""Asking a language model: what rules cannot do, inside hard limits. Nothing here is imported with --llm off."""
