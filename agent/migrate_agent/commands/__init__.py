"""What each command does; one module a command, imported when it is called."""
