"""What the loop says."""


def second_look(hint):
    return f"Look again. {hint}".strip()
