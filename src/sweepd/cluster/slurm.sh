#!/bin/bash
{options}

# Written by sweepd: a Ray on all nodes of this job, and on the first of them the driver of a sweep.
{setup}
export PATH="$(dirname "$(command -v {python})"):$PATH" PYTHONPATH="$PWD"
export SRUN_CPUS_PER_TASK="$SLURM_CPUS_PER_TASK" SLURM_WAIT=0
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH={folder}/token RAY_USAGE_STATS_ENABLED=0
export RAY_SYMMETRIC_RUN_CLUSTER_WAIT_TIMEOUT=300
export RAY_TMPDIR="/tmp/sweepd-$SLURM_JOB_ID-${{SLURM_RESTART_COUNT:-0}}"
{network}
export RAY_ADDRESS="$head:$((20000 + SLURM_JOB_ID % 6000))"

node() {{
  mkdir -m 700 "$RAY_TMPDIR" || return
  local options=(--num-cpus={cpus} --num-gpus={gpus} --dashboard-agent-listen-port=0)
  if [ "$SLURM_NODEID" = 0 ]; then options+=(--include-dashboard=false); fi
  # Ray would count on the memory of the whole node. The job has what Slurm says, in MiB.
  local memory=${{SLURM_MEM_PER_NODE:-$((${{SLURM_MEM_PER_CPU:-0}} * SLURM_CPUS_PER_TASK))}}
  if [ "$memory" -gt 0 ]; then
    options+=(--memory=$((memory << 20)) --object-store-memory=$(((memory << 20) / 10)))
  fi
  ray symmetric-run --address "$RAY_ADDRESS" --min-nodes {nodes} "${{options[@]}}" \
    --ray-client-server-port=$((26000 + SLURM_JOB_ID % 6000)) -- bash -c {driver}
  rm -rf "$RAY_TMPDIR"
}}
export -f node

# USR1 comes before the time limit and before a preemption, USR2 from `sweepd cluster down`: the
# driver is asked to save what runs and to end. After USR1 the job goes back to the queue.
again=
trap {cancel} USR2
trap again=yes\;{cancel} USR1

# symmetric-run refuses to start beside another Ray, and ends with `ray stop`, which ends every Ray
# of this user that it sees: where the kernel allows it, it sees its own processes alone.
alone=(unshare --user --map-current-user --pid --fork --kill-child --mount-proc)
"${{alone[@]}}" true 2> /dev/null || alone=()
rm -f {folder}/code
srun --no-kill "${{alone[@]}}" bash -c 'node; exit' &
ray=$!
# A driver that has not begun when USR1 comes hears nothing. So it is asked again until it ends.
while kill -0 "$ray" 2> /dev/null; do
  if [ "$again" ]; then sleep 10; eval {cancel}; else wait "$ray"; fi
done
[ "$again$(cat {folder}/code)" = yes130 ] && scontrol requeue "$SLURM_JOB_ID" && exit
cp {folder}/code {folder}/exit || echo 3 > {folder}/exit # no driver ran
