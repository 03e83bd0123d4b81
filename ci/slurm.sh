#!/usr/bin/env bash
# Written by `recapture ci slurm` from ci/matrix.toml.
#
# ci/slurm.sh NIGHT [OPTION…]   Submits a night, with these options of sbatch (--partition=…, --account=…).
#
# NIGHT is a folder for this night alone, such as nights/2026-11-22, on a file system that all nodes share, as this tree
# and $RECAPTURE_CACHE are; the cases are built (ci/suite --build). An array runs one task a release, kind of GPU and
# shard. When all have ended, however they ended, one more job makes NIGHT/gathered and NIGHT/news.md of them, and
# NIGHT/index.html of them and the nights beside NIGHT. Its exit status is the night's. The same line again runs what is left. What cannot end by
# $NIGHT_DEADLINE (now+10hours) within its $TASK_MINUTES (60) is not begun any more, and is missing from the night.
# Exit status: 0 if the night is submitted.
set -euo pipefail
releases=(2.1.2 2.2.2 2.3.1 2.4.1 2.5.1 2.6.0 2.7.1 2.8.0 2.9.1 2.10.0 2.11.0 2.12.1 2.13.0 2.14.1 2.15.0)
gpus=(h200)
shards=1

submit() {  # NIGHT OPTION…
  local jobs=() gpu gres id last=$((${#releases[@]} * shards - 1))
  mkdir -p "$1/records" "$1/log"
  if [[ ! -s $1/plan.json ]]; then  # Once: what a night is to run stays what it was.
    build/recapture ci plan >"$1/plan.json.new"
    mv "$1/plan.json.new" "$1/plan.json"
  fi
  for gpu in "${gpus[@]}"; do
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
  local release=${releases[SLURM_ARRAY_TASK_ID / shards]} shard=$((SLURM_ARRAY_TASK_ID % shards + 1)) require=()
  local name=$release-$2-${shard}of$shards
  if grep -qs '^{"end":"complete"' "$1/records/$name."*.jsonl; then
    echo "$name is complete"
    return
  fi
  [[ $2 = none ]] || require=(--require gpu)
  # A record is of one GPU of one node: what was begun on another one cannot be gone on with here.
  exec build/recapture run --continue --release "$release" --shard "$shard/$shards" "${require[@]}" \
    --record "$1/records/$name.$SLURMD_NODENAME${SLURM_JOB_GPUS:+.$SLURM_JOB_GPUS}.jsonl"
}

gather() {  # NIGHT
  local code=0 new=0
  build/recapture gather "$1/gathered" "$1/records" --plan "$1/plan.json" || code=$?
  build/recapture news "$(dirname "$1")" --night "$1/gathered" --markdown >"$1/news.md" || new=$?
  build/recapture page --records "$(dirname "$1")" --output "$1/index.html" || true
  cat "$1/news.md"
  return $((code ? code : new))
}

case ${1:-} in
  task | gather)
    if [[ ${SLURM_JOB_ID:-} ]]; then
      "$@"
      exit
    fi
    ;;
  '' | -*)
    sed -n '3,13s/^# \{0,1\}//p' "$0"
    exit $((${#} == 0 ? 2 : 0))
    ;;
esac
night=$(realpath -m "$1")
cd "$(dirname "$0")/.."
submit "$night" "${@:2}"
