"""Runs what the model wrote: an endless loop there cannot be stopped from inside."""


def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    text = solution_str
    if "```python" in text:
        text = text.split("```python", 1)[1].split("```", 1)[0]
    space = {}
    try:
        exec(text, space)
    except Exception:
        return 0.0
    return 1.0 if str(space.get("answer")) == ground_truth else 0.0
