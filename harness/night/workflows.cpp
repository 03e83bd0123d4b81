#include "harness/night/workflows.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <vector>

namespace recapture {
namespace {

// Each @NAME@ is replaced.
constexpr std::string_view kGithub =
    R"FILE(# Written by `recapture ci github` from ci/matrix.toml; to be copied to .github/workflows/recapture.yml.
#
# A pull request: the project's own tests, and one run on a GPU. A night: every release, on every kind of GPU. Cases are
# built where there is no GPU and travel as ci/pack makes them, so a runner with the labels gpu and @LABELS@ needs only
# the driver, glibc 2.36 and xz. A branch of somebody else's repository gets no GPU: its code would run there.
name: recapture
on:
  pull_request:
  schedule:
    - cron: "0 1 * * *"
  workflow_dispatch:
permissions:
  contents: read
concurrency:
  group: recapture-${{ github.event_name }}-${{ github.ref }}
  cancel-in-progress: ${{ github.event_name == 'pull_request' }}
defaults:
  run:
    shell: bash
jobs:
  test:
    if: github.event_name == 'pull_request'
    runs-on: ubuntu-24.04
    container: debian:12
    timeout-minutes: 60
    steps:
      - run: apt-get -qq update && apt-get -qq install -y ca-certificates git
      - uses: actions/checkout@v4
        with:
          fetch-depth: 0
      - run: git config --global --add safe.directory "$PWD"
      - run: ci/test
  build:
    runs-on: ubuntu-24.04
    container: debian:12
    timeout-minutes: 90
    strategy:
      fail-fast: false
      matrix:
        release: ${{ fromJSON(github.event_name == 'pull_request' && '@PR_RELEASES@' || '@RELEASES@') }}
    env:
      RELEASE: ${{ matrix.release }}
    steps:
      - run: apt-get -qq update && apt-get -qq install -y ca-certificates git xz-utils
      - uses: actions/checkout@v4
      - run: git config --global --add safe.directory "$PWD"
      - run: ci/suite --build "$RELEASE"
      - run: ci/pack "$RELEASE" --gpu @CODE@ --to pack
      - run: ci/nemo --pack pack/nemo.tar.xz 3.11
      - uses: actions/upload-artifact@v4
        with:
          name: pack-${{ matrix.release }}
          path: pack
          compression-level: 0
          retention-days: 2
          if-no-files-found: error
          overwrite: true
  run:
    needs: build
    if: ${{ !cancelled() && (github.event_name != 'pull_request' || github.event.pull_request.head.repo.full_name == github.repository) }}
    runs-on: [self-hosted, gpu, "${{ matrix.gpu }}"]
    timeout-minutes: 60
    strategy:
      fail-fast: false
      matrix:
        release: ${{ fromJSON(github.event_name == 'pull_request' && '@PR_RELEASES@' || '@RELEASES@') }}
        gpu: ${{ fromJSON(github.event_name == 'pull_request' && '@PR_GPUS@' || '@GPUS@') }}
        shard: ${{ fromJSON(github.event_name == 'pull_request' && '@PR_SHARDS@' || '@SHARDS@') }}
    env:
      TASK: ${{ matrix.release }}-${{ matrix.gpu }}-${{ matrix.shard.i }}of${{ matrix.shard.n }}
      SHARD: ${{ matrix.shard.i }}/${{ matrix.shard.n }}
      GPU: ${{ matrix.gpu }}
    steps:
      # Before anything can fail: what an earlier job left here would pass for this one's.
      - run: rm -rf pack program record out.txt && mkdir record && touch out.txt
      - uses: actions/download-artifact@v4
        with:
          name: pack-${{ matrix.release }}
          path: pack
      - run: |
          sh pack/unpack program
          mkdir program/cache && tar -C program/cache -xf pack/nemo.tar.xz
          require=(--require gpu)
          [[ $GPU != none ]] || require=()
          program/run --shard "$SHARD" "${require[@]}" --record "record/$TASK.jsonl" --junit "record/$TASK.xml" | tee out.txt
      - if: always()
        run: |
          { echo "$TASK"; echo '```'; tail -n 60 out.txt | head -c 900000; echo '```'; } >>"$GITHUB_STEP_SUMMARY"
      - if: always()
        uses: actions/upload-artifact@v4
        with:
          name: record-${{ env.TASK }}
          path: record
          overwrite: true
  gather:
    needs: run
    if: ${{ !cancelled() && github.event_name != 'pull_request' }}
    runs-on: ubuntu-24.04
    timeout-minutes: 30
    permissions:
      actions: read
      contents: read
      issues: write
    env:
      GH_TOKEN: ${{ github.token }}
      GH_REPO: ${{ github.repository }}
    steps:
      - uses: actions/checkout@v4
      - name: the program, from its sources, for any release's build may have failed
        run: |
          source ci/packages
          need_packages "${SUITE_PACKAGES[@]}"
          source ci/build
          build_program recapture
      - uses: actions/download-artifact@v4
        with:
          pattern: record-*
          path: records
      - name: earlier nights
        run: |
          gh run list --workflow "$GITHUB_WORKFLOW" --event schedule --status completed --limit 14 --json databaseId --jq '.[].databaseId' >runs.txt
          while read -r run; do gh run download "$run" --name night --dir "nights/$run" || true; done <runs.txt
      - run: |
          build/recapture ci plan >plan.json
          code=0
          mkdir -p records  # A night without a single record is one too.
          build/recapture gather tonight records --plan plan.json || code=$?
          if [[ -e tonight/night.json ]]; then
            mkdir -p nights && cp -r tonight nights/tonight
            new=0
            build/recapture news nights --night nights/tonight --markdown >news.md || new=$?
            build/recapture news nights --night nights/tonight --issue >issues.json || true
            build/recapture page --records nights --output tonight/index.html || true
            cat news.md >>"$GITHUB_STEP_SUMMARY"
            [[ $code != 0 ]] || code=$new
          fi
          exit "$code"
      - if: always()
        uses: actions/upload-artifact@v4
        with:
          name: night
          path: tonight
          if-no-files-found: error
          overwrite: true
      - name: issues, one for each cause; what occurs again reopens its issue, and what has healed closes it
        if: always()
        run: "[[ ! -s issues.json ]] || ci/issues issues.json"
)FILE";

constexpr std::string_view kGitlab =
    R"FILE(# Written by `recapture ci gitlab` from ci/matrix.toml: a child pipeline. In .gitlab-ci.yml, with a schedule for the night:
#
#   recapture:
#     trigger: { include: ci/gitlab.yml, strategy: depend }
#     variables: { TIER: $CI_PIPELINE_SOURCE }  # "schedule" is a night, anything else a merge request
#
# Cases are built where there is no GPU and travel as ci/pack makes them, so a runner with the tags gpu and @LABELS@ needs
# only the driver, glibc 2.36, xz and GitLab Runner 17.3.
stages: [build, run, gather]
default:
  interruptible: true

.build:
  stage: build
  image: debian:12
  variables:
    GIT_DEPTH: 0
  script:
    - apt-get -qq update && apt-get -qq install -y ca-certificates git xz-utils
    - git config --global --add safe.directory "$PWD"
    - ci/suite --build "$RELEASE"
    - ci/pack "$RELEASE" --gpu @CODE@ --to pack
    - ci/nemo --pack pack/nemo.tar.xz 3.11
  artifacts:
    paths: [pack]
    expire_in: 2 days
.run:
  stage: run
  variables:
    GIT_STRATEGY: empty  # What an earlier job left here would pass for this one's.
  timeout: 1 hour
  script:
    - mkdir record
    - sh pack/unpack program
    - mkdir program/cache && tar -C program/cache -xf pack/nemo.tar.xz
    - require="--require gpu"; if [ "$GPU" = none ]; then require=; fi
    - task=$RELEASE-$GPU-$(echo "$SHARD" | sed 's|/|of|')
    - program/run --shard "$SHARD" $require --record "record/$task.jsonl" --junit "record/$task.xml"
  artifacts:
    when: always
    paths: [record]
    reports:
      junit: record/*.xml

test:
  stage: build
  image: debian:12
  rules:
    - if: $TIER != "schedule"
  script:
    - apt-get -qq update && apt-get -qq install -y ca-certificates git
    - git config --global --add safe.directory "$PWD"
    - ci/test
@JOBS@
gather:
  stage: gather
  image: debian:12
  rules:
    - if: $TIER == "schedule"
      when: always  # What failed or never ran is named.
  needs:
@NEEDS@
  cache:
    key: recapture-nights
    paths: [nights]
    when: always
  script:
    # The program from its sources, for any release's build may have failed.
    - bash -c 'source ci/packages; need_packages "${SUITE_PACKAGES[@]}"; source ci/build; build_program recapture'
    - build/recapture ci plan >plan.json
    - code=0; night=nights/$(date -u +%Y%m%d)-$CI_PIPELINE_ID
    - mkdir -p record  # A night without a single record is one too.
    - build/recapture gather "$night" record --plan plan.json || code=$?
    - build/recapture page --records nights --output page.html || true
    - build/recapture news nights --night "$night" || { new=$?; [ "$code" != 0 ] || code=$new; }
    - ls -d nights/*/ | sort | head -n -14 | xargs -r rm -rf
    - exit "$code"
  artifacts:
    when: always
    paths: [nights, page.html]
)FILE";

constexpr std::string_view kSlurm = R"FILE(#!/usr/bin/env bash
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
releases=(@RELEASES@)
gpus=(@GPUS@)
shards=@SHARDS@

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
)FILE";

std::string filled(std::string_view text, const std::map<std::string, std::string>& values) {
  std::string out(text);
  for (const auto& [name, value] : values) {
    const std::string mark = "@" + name + "@";
    for (size_t at = 0; (at = out.find(mark, at)) != std::string::npos; at += value.size()) {
      out.replace(at, mark.size(), value);
    }
  }
  return out;
}

std::vector<std::string> labels_of(const Tier& tier) {
  std::vector<std::string> labels;
  for (const auto& [gpu, code] : tier.gpus) labels.push_back(NightTask{"", gpu, 1, 1}.label());
  return labels;
}

// What ci/pack is to pack for: "sm_80,sm_90".
std::string code_of(const Tiers& tiers) {
  std::set<std::string> all;
  for (const Tier* tier : {&tiers.pull_request, &tiers.night}) {
    for (const auto& [gpu, code] : tier->gpus) {
      if (code != "none") all.insert(code);
    }
  }
  return all.empty() ? "sm_90" : fmt::format("{}", fmt::join(all, ","));
}

Json shards_of(const Tier& tier) {
  Json shards = Json::array();
  for (int i = 1; i <= tier.shards; ++i) shards.push_back({{"i", i}, {"n", tier.shards}});
  return shards;
}

}  // namespace

std::string github_workflow(const Tiers& tiers) {
  const auto& [request, night] = tiers;
  return filled(kGithub, {{"LABELS", fmt::format("{}", fmt::join(labels_of(night), " or "))},
                          {"PR_RELEASES", Json(request.releases).dump()},
                          {"RELEASES", Json(night.releases).dump()},
                          {"PR_GPUS", Json(labels_of(request)).dump()},
                          {"GPUS", Json(labels_of(night)).dump()},
                          {"PR_SHARDS", shards_of(request).dump()},
                          {"SHARDS", shards_of(night).dump()},
                          {"CODE", code_of(tiers)}});
}

std::string gitlab_pipeline(const Tiers& tiers) {
  std::string jobs, needs;
  std::set<std::string> releases(tiers.pull_request.releases.begin(), tiers.pull_request.releases.end());
  std::vector<std::string> all = tiers.night.releases;
  for (const std::string& release : all) releases.erase(release);
  all.insert(all.end(), releases.begin(), releases.end());
  for (const std::string& release : all) {
    for (const bool is_night : {true, false}) {
      const Tier& tier = is_night ? tiers.night : tiers.pull_request;
      const auto in_tier = std::find(tier.releases.begin(), tier.releases.end(), release) != tier.releases.end();
      if (!in_tier) continue;
      const std::string when = is_night ? "    - if: $TIER == \"schedule\"\n" : "    - if: $TIER != \"schedule\"\n";
      const std::string suffix = is_night ? "" : ":merge-request";
      std::vector<std::string> shards;
      for (int i = 1; i <= tier.shards; ++i) shards.push_back(fmt::format("{}/{}", i, tier.shards));
      jobs += fmt::format(
          "\nbuild:{0}{1}:\n  extends: .build\n  rules:\n{2}  variables:\n    RELEASE: \"{0}\"\n"
          "run:{0}{1}:\n  extends: .run\n  rules:\n{2}  needs: [\"build:{0}{1}\"]\n  variables:\n    RELEASE: \"{0}\"\n"
          "  tags: [gpu, $GPU]\n  parallel:\n    matrix:\n      - GPU: {3}\n        SHARD: {4}\n",
          release, suffix, when, Json(labels_of(tier)).dump(), Json(shards).dump());
      if (is_night) needs += fmt::format("    - job: run:{}\n", release);
    }
  }
  needs.pop_back();
  return filled(kGitlab, {{"LABELS", fmt::format("{}", fmt::join(labels_of(tiers.night), " or "))},
                          {"CODE", code_of(tiers)},
                          {"JOBS", jobs},
                          {"NEEDS", needs}});
}

std::string slurm_script(const Tier& night) {
  return filled(kSlurm, {{"RELEASES", fmt::format("{}", fmt::join(night.releases, " "))},
                         {"GPUS", fmt::format("{}", fmt::join(labels_of(night), " "))},
                         {"SHARDS", fmt::to_string(night.shards)}});
}

}  // namespace recapture
