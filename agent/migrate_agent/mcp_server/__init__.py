"""The commands as tools of the Model Context Protocol; `migrate-agent mcp` serves them to another agent over stdio."""
