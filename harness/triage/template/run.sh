#!/bin/sh
# @TITLE@
#
#   sh run.sh              the failure: REPRODUCED (exit status 1), NOT REPRODUCED (0), COULD NOT RUN and why (2)
#   sh run.sh control      the same without its cause: 0
#   sh run.sh fix [NAME]   with each remedy, or with one of them: 0
#   sh run.sh env          what PyTorch's bug form asks for
#
# Takes torch from your python3 and writes into this folder alone.
cd "$(dirname "$0")" || exit 2
reproduces="@REPRODUCES@"
controls="@CONTROLS@"
fixes="@FIXES@"

could_not_run() {
  echo "COULD NOT RUN: $*"
  exit 2
}

@PREPARE@

run() {
  timeout -k 5 @DEADLINE@ @PROGRAM@
  status=$?
  [ $status != 124 ] || could_not_run "$1 did not come back within @DEADLINE@ s"
  [ $status -le 2 ] || could_not_run "$1 ended with status $status"
  return $status
}

run_all() {
  worst=0
  for test in "$@"; do
    echo "== $test"
    (run "$test")
    status=$?
    [ $status -le $worst ] || worst=$status
  done
  exit $worst
}

case "${1-}" in
  "") prepare && run $reproduces ;;
  control) prepare && run_all $controls ;;
  fix)
    [ -n "$fixes" ] || could_not_run "no remedy is known"
    case " $fixes " in *" ${2:-$fixes} "*) ;; *) could_not_run "there is no $2; there are: $fixes" ;; esac
    prepare && run_all ${2:-$fixes} ;;
  env) python3 -m torch.utils.collect_env ;;
  *) could_not_run "run.sh takes nothing, control, fix [NAME] or env" ;;
esac
