#!/usr/bin/env bash
# ci/slurm.sh NIGHT [OPTION…]   Submits a night. OPTIONs are passed to sbatch (--partition=…, --account=…).
#
# NIGHT is a folder for this night, such as nights/2026-11-22, on a file system that all nodes share, like this tree and
# $RECAPTURE_CACHE; the cases are built (ci/suite --build). An array job for each kind of GPU runs its tasks of
# [tier.night] of ci/matrix.toml. When all have ended, with or without success, one more job writes NIGHT/gathered,
# NIGHT/news.md, and NIGHT/index.html, which also covers the other nights beside NIGHT. Its exit status is the night's.
# The state of all nights before is beside the newest night (gathered/state.json); FIRST=1 begins again with this one.
# The same command again runs what is left. A task that cannot end by $NIGHT_DEADLINE (now+10hours) within its
# $TASK_MINUTES (60) is not started, and is missing from the night.
# Exit status: 0 if the night is submitted.
set -euo pipefail

tasks_of() {  # NIGHT GPU: for each task a line with its name and its command, without the record's path
  python3 -c '
import json, sys
for task in json.load(open(sys.argv[1])):
    if task["label"] == sys.argv[2]:
        print(task["record"].removesuffix(".jsonl"), *task["command"][:-1])' "$1/plan.json" "$2"
}

submit() {  # NIGHT OPTION…
  local jobs=() gpus gpu gres id last
  mkdir -p "$1/records" "$1/log"
  if [[ ! -s $1/plan.json ]]; then  # Once: the plan of a night does not change.
    build/recapture nightly plan >"$1/plan.json.new"
    mv "$1/plan.json.new" "$1/plan.json"
  fi
  gpus=$(python3 -c 'import json, sys; print(*{task["label"]: 0 for task in json.load(sys.stdin)})' <"$1/plan.json")
  for gpu in $gpus; do
    last=$(($(tasks_of "$1" "$gpu" | wc -l) - 1))
    gres=(--gres="gpu:$gpu:1")
    [[ $gpu != none ]] || gres=()
    id=$(sbatch --parsable --job-name="recapture-$gpu" --array="0-$last" "${gres[@]}" --requeue --open-mode=append \
      --time="${TASK_MINUTES:-60}" --deadline="${NIGHT_DEADLINE:-now+10hours}" --output="$1/log/$gpu-%a.txt" "${@:2}" \
      ci/slurm.sh task "$1" "$gpu")
    jobs+=("${id%%;*}")
  done
  id=$(sbatch --parsable --job-name=recapture-gather --dependency="afterany:$(IFS=:; echo "${jobs[*]}")" --requeue \
    --open-mode=append --time=30 --output="$1/log/gather.txt" "${@:2}" ci/slurm.sh gather "$1")
  echo "tasks: ${jobs[*]}; gathered by: ${id%%;*}"
}

task() {  # NIGHT GPU, on a node
  local name command
  read -r name command < <(tasks_of "$1" "$2" | sed -n "$((SLURM_ARRAY_TASK_ID + 1))p")
  if grep -qs '^{"end":"complete"' "$1/records/$name."*.jsonl; then
    echo "$name is complete"
    return
  fi
  # A record is of one GPU of one node: a run that began on another one cannot be resumed here.
  # shellcheck disable=SC2086  # No word of the command has a blank.
  exec $command "$1/records/$name.$SLURMD_NODENAME${SLURM_JOB_GPUS:+.$SLURM_JOB_GPUS}.jsonl"
}

gather() {  # NIGHT
  local code=0 new=0 page=0
  build/recapture nightly collect "$1/gathered" "$1/records" --plan "$1/plan.json" || code=$?
  local first=()
  [[ ! ${FIRST:-} ]] || first=(--first --from "$(basename "$1")")
  build/recapture nightly diff "$(dirname "$1")" --night "$1/gathered" "${first[@]}" --markdown >"$1/news.md" || new=$?
  build/recapture page --records "$(dirname "$1")" --output "$1/index.html" || page=$?
  cat "$1/news.md"
  return $((code ? code : new ? new : page))
}

case ${1:-} in
  task | gather)
    if [[ ${SLURM_JOB_ID:-} ]]; then
      "$@"
      exit
    fi
    ;;
  '' | -*)
    sed -n '2,11s/^# \{0,1\}//p' "$0"
    exit $((${#} == 0 ? 2 : 0))
    ;;
esac
night=$(realpath -m "$1")
cd "$(dirname "$0")/.."
submit "$night" "${@:2}"
