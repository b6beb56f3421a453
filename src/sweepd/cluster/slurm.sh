#!/bin/bash
{options}

# Written by sweepd: a Ray on all nodes of this job, and on the first of them the driver of a sweep.
export SWEEPD_PAID_SINCE=$(date +%s)
{setup}
export PYTHONPATH="$PWD" SRUN_CPUS_PER_TASK="$SLURM_CPUS_PER_TASK" SLURM_WAIT=0
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH={folder}/token RAY_USAGE_STATS_ENABLED=0
export RAY_SYMMETRIC_RUN_CLUSTER_WAIT_TIMEOUT=300
# So many Pythons come from one shared folder at a time that Ray's minute is not enough for them.
export RAY_worker_register_timeout_seconds={register}
{network}
export RAY_ADDRESS="$head:$((20000 + SLURM_JOB_ID % 6000))"

# Starts Ray on a node and, on the first, the driver.
node() {{
  cd {folder}/package || return
  PATH="$(dirname "$(command -v {python})"):$PATH"
  local options=(--num-cpus={cpus} --num-gpus={gpus} --dashboard-agent-listen-port=0)
  if [ "$SLURM_NODEID" = 0 ]; then options+=(--include-dashboard=false); fi
  # Ray would count on the memory of the whole node. The job has what Slurm says, in MiB.
  local memory=${{SLURM_MEM_PER_NODE:-$((${{SLURM_MEM_PER_CPU:-0}} * SLURM_CPUS_PER_TASK))}}
  if [ "$memory" -gt 0 ]; then
    options+=(--memory=$((memory << 20)) --object-store-memory=$(((memory << 20) / 10)))
  fi
  # Ray gives up on a node that joins before the head's own raylet is there, which takes long from
  # a slow disk. As long as the head answers, such a node tries again.
  for attempt in {{1..5}}; do
    ray symmetric-run --address "$RAY_ADDRESS" --min-nodes {wanted} "${{options[@]}}" \
      --ray-client-server-port=$((26000 + SLURM_JOB_ID % 6000)) -- bash -c {driver}
    if [ "$SLURM_NODEID" = 0 ]; then break; fi
    sleep 5
    (: > "/dev/tcp/${{RAY_ADDRESS/://}}") 2> /dev/null || break
  done
}}

# Gives the Ray of a node a folder in the job's temporary one, if the paths of its sockets are short
# enough there. Slurm asks all processes to end before it kills them, and the folder goes after all
# but this one.
around() {{
  trap : TERM
  local usual="${{SLURM_TMPDIR:-${{TMPDIR:-/tmp}}}}"
  local own="sweepd-$SLURM_JOB_ID-${{SLURM_RESTART_COUNT:-0}}"
  export RAY_TMPDIR="$usual/$own"
  if [ ${{#RAY_TMPDIR}} -gt {longest} ] || [ ! -w "$usual" ]; then RAY_TMPDIR="/tmp/$own"; fi
  mkdir -m 700 "$RAY_TMPDIR" || return
  # symmetric-run refuses to start beside another Ray, and ends with `ray stop`, which ends every Ray
  # of this user that it sees: where the kernel allows it, it sees its own processes alone.
  local alone=({alone})
  "${{alone[@]}}" true 2> /dev/null || alone=()
  "${{alone[@]}}" {inside} bash -c "$(declare -f node); node; exit"
  for second in {{1..20}}; do rm -rf "$RAY_TMPDIR" && break; sleep 1; done 2> /dev/null
}}

# USR1 comes before the time limit and before a preemption, USR2 from `sweepd cluster down`: the
# driver is asked to save what runs and to end. After USR1 the job goes back to the queue.
again=
rm -f {folder}/code {folder}/stop
trap 'touch {folder}/stop' USR2
trap 'again=yes; touch {folder}/stop' USR1
srun --no-kill {outside} bash -c "$(declare -f node around); around; exit" &
ray=$!
while kill -0 "$ray" 2> /dev/null; do wait "$ray"; done
[ "$again$(cat {folder}/code)" = yes130 ] && scontrol requeue "$SLURM_JOB_ID" && exit
cp {folder}/code {folder}/exit || echo 3 > {folder}/exit # no driver ran
