"""The stand-in trainer: runs inside the sandbox, written from the Relax recipe contract. No torch, no ray, no GPU."""
