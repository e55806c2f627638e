# Stand-in entry point of migrate-agent's rehearsal. It exports what Relax's own one exports and does nothing else:
# no Ray, no process is ended.
# shellcheck shell=bash
RELAX="$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." &>/dev/null && pwd)"
export RELAX
export PYTHONPATH="${RELAX}${PYTHONPATH:+:${PYTHONPATH}}"
export MODEL_CONFIG_DIR="${RELAX}/scripts/models"
export CUDA_DEVICE_MAX_CONNECTIONS=1
export MASTER_ADDR="${MASTER_ADDR:-127.0.0.1}"
export NUM_GPUS="${NUM_GPUS:-8}"
export RUNTIME_ENV_JSON='{"env_vars":{}}'
export RELAX_ENTRYPOINT_MODE=local
