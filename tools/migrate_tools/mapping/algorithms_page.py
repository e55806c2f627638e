"""Writes skill/references/algorithms.md: `python -m migrate_tools.mapping.algorithms_page [--check]`."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import Final

from migrate_tools.mapping.algorithm import REFUSED_MODULES
from migrate_tools.mapping.algorithm_table import AGGREGATIONS, ESTIMATORS, LOSSES, Estimator, PolicyLoss
from migrate_tools.mapping.kl import KL_TYPES, OWN_KINDS
from migrate_tools.relax.hooks import LIBRARY
from migrate_tools.resources import resource_dir

HEAD: Final = """# Algorithms: verl to Relax

Generated from `tools/migrate_tools/mapping/algorithm_table.py` by `python -m migrate_tools.mapping.algorithms_page`; do
not edit by hand. "Since" is the first verl release with the name.

In Relax the processed reward is the advantage of every token (grpo, gspo, sapo, cispo), so an outcome estimator of verl
is a reward post-process hook; a loss is Relax's own or a `--loss-type custom_loss`; a sum over tokens is a pg-loss
reducer. Hooks are written to `examples/<algo>/hooks_<algo>.py`, need no torch to import, and are compared with verl's
own functions in `tests/numeric` (values and gradients, double precision, 1e-6; importance weights in single precision).

Reducers, the rollout correction, and losses that look at whole responses or aggregate by themselves need
`--context-parallel-size 1` and stop with an error when it is not.
"""
CORRECTION: Final = """
## Rollout correction

| verl | since | in Relax | how exact |
|---|---|---|---|
| `actor.tis_imp_ratio_cap`, `rollout_is=token` with one bound | 0.5 | `--use-tis --tis-clip --tis-clip-low 0` | the same weights |
| `rollout_is=token` with `"lower_upper"` (IcePop) | 0.8 | hook `rollout_correction` | the same weights |
| `rollout_is=sequence`; `geometric` | 0.6; 0.6.0 only | hook `rollout_correction` | the same weights |
| `rollout_rs=token`, `sequence`, `geometric`; veto | 0.6.1 - 0.7.0 | hook `rollout_correction` | the same tokens rejected; they leave the sum, and Relax's divisor still counts them |
| `rollout_rs=token_k1` ... `seq_max_k3`, several joined | 0.7.1 | hook `rollout_correction` | as above |
| `rollout_is_batch_normalize` | 0.6.1 | **unsupported** | a mean over the batch: Relax's hooks see one micro batch |
| `bypass_mode` with `ppo_clip` | 0.6.1 | `--use-rollout-logprobs`, hook `dual_clip_loss` | the same loss; weights are not applied, rejection is |
| `bypass_mode` with `reinforce` | 0.7 (0.6.1 `use_policy_gradient`) | `--use-rollout-logprobs`, hook `reinforce_loss` | the same loss |

Beside a custom loss the correction is computed inside it, because Relax's own does not reach a custom loss.
"""  # noqa: E501
SAMPLING: Final = """
## Dynamic sampling (DAPO)

`algorithm.filter_groups` becomes `--over-sampling-batch-size` with a filter: Relax's `check_reward_nonzero_std` where
the metric is the trained reward (`seq_reward`; `score` without overlong penalty), else the hook `keep_varied_groups`,
which reads the metric from the reward's dict. Relax generates until the batch is full, however long that takes.

## KL

| verl | in the loss (`--kl-loss-type`) | |
|---|---|---|
"""
KL_END: Final = """
KL in the reward: Relax's `reinforce_plus_plus` takes it (`--kl-coef`, k1). For every other estimator it is unsupported,
`rloo` and `grpo` included: the KL of a sample enters the baseline of its whole prompt before whitening or division, the
reward hooks have no log-probs of the reference, and the loss hook sees one micro batch, not whole prompts. Relax's
synchronous ppo turns every KL term off. An adaptive coefficient is unsupported.

## Other settings

| verl | in Relax |
|---|---|
| `clip_ratio`, `clip_ratio_low`, `clip_ratio_high` | `--eps-clip`, `--eps-clip-high` (read by generated losses too) |
| `clip_ratio_c` (dual clip) | `--eps-clip-c`, applied by the hook `dual_clip_loss` where the ratio moves; Relax's own loss does not apply it |
| `norm_adv_by_std_in_grpo=False` (Dr.GRPO) | `--disable-grpo-std-normalization`, or in the hook |
| `entropy_coeff` | `--entropy-coef` |
| `use_pf_ppo` | **unsupported**: samples are drawn again by their scores |

## Trainers of recipes that are refused

| entry module | why |
|---|---|
"""  # noqa: E501


def render() -> str:
    """The whole page."""
    parts = [HEAD, "\n## Advantage estimators\n\n| verl | since | in Relax | how exact |\n|---|---|---|---|"]
    parts += [_line(name, row.since, _estimator(row), row.refusal or row.exact) for name, row in ESTIMATORS.items()]
    parts += ["\n## Policy losses\n\n| verl | since | in Relax | how exact |\n|---|---|---|---|"]
    parts += [_line(name, row.since, _loss(row), row.refusal or row.exact) for name, row in LOSSES.items()]
    parts += ["\n## Loss aggregation\n\n| verl | since | in Relax | how exact |\n|---|---|---|---|"]
    parts += [_line(name, row.since, row.relax, row.exact) for name, row in AGGREGATIONS.items()]
    parts += [
        "\nWith an entropy bonus or a KL loss the sums are taken by a custom loss, because a reducer replaces the "
        "policy term's only.",
        CORRECTION.rstrip(),
        SAMPLING.rstrip(),
    ]
    parts += [f"| `{name}` | {kind} | {status}: {why} |" for name, (kind, status, why) in KL_TYPES.items()]
    parts += [f"| `{name}` | custom loss | exact: computed by the generated loss |" for name in sorted(OWN_KINDS)]
    parts += [KL_END.rstrip()]
    parts += [f"| `{name}` | {why} |" for name, why in REFUSED_MODULES.items()]
    parts += ["\n## Generated functions\n\n| function | what | formula and source |\n|---|---|---|"]
    parts += [f"| `{name}` | {what} | {rest} |" for name, what, rest in _functions()]
    return "\n".join(parts) + "\n"


def _line(name: str, since: str, relax: str, exact: str) -> str:
    return f"| `{name}` | {since or 'recipe'} | {relax} | {exact} |"


def _estimator(row: Estimator) -> str:
    if not row.relax:
        return "**refused**"
    words = [f"`--advantage-estimator {row.relax}`"]
    words += {
        "raw reward": ["`--disable-rewards-normalization`"],
        "group mean": ["`--disable-grpo-std-normalization`"],
    }.get(row.advantage, [])
    words += [f"hook `{row.hook}`"] if row.hook else []
    words += ["`--normalize-advantages`"] if row.whiten else []
    words += ["sync only"] if row.whiten or row.whole_rollout else []
    return ", ".join(words)


def _loss(row: PolicyLoss) -> str:
    if not row.hook:
        return "**refused**"
    own = {"always": "own", "ratio is 1": "own while the ratio is 1", "never": ""}[row.native_when]
    words = [f"`{row.estimator}` ({own})"] if row.estimator else []
    if row.native_when != "always":
        words.append(f"hook `{row.hook}`")
    return ", else ".join(words) + (
        f" (hook `{row.hook}` beside other settings)" if row.native_when == "always" else ""
    )


def _functions() -> list[tuple[str, str, str]]:
    """Hooks of the library: name, first sentence, formula and source."""
    named = {row.hook for row in ESTIMATORS.values()} | {row.hook for row in LOSSES.values()}
    named |= {"discounted_returns", "rollout_correction", "token_sum", "micro_batch_token_mean", "keep_varied_groups"}
    found = []
    for path in sorted(LIBRARY.glob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name in named:
                first, _, rest = (ast.get_docstring(node) or "").partition("\n\n")
                found.append((node.name, _cell(first), _cell(rest)))
    return found


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def main(arguments: list[str]) -> int:
    """Write the page, or with --check say whether it is stale."""
    path: Path = resource_dir("skill") / "references" / "algorithms.md"
    text = render()
    if "--check" in arguments:
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            print(f"{path} is stale; run python -m migrate_tools.mapping.algorithms_page", file=sys.stderr)
            return 1
        return 0
    path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
