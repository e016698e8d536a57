#!/usr/bin/env bash
# The whole test run, fast checks first. Counts every check and test and ends with one line: N passed, N failed.
# A stage that ran no test is a failure.
set -uo pipefail
cd "$(dirname "$0")/.."
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
passed=0 failed=0

# stage NAME COMMAND...: one check, passed or failed as a whole.
stage() {
  local name=$1; shift
  echo "== $name"
  if "$@" > "$logs/stage" 2>&1; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    tail -n 200 "$logs/stage"
    echo "FAILED: $name"
  fi
}

# counted NAME COMMAND...: a test runner whose own lines are counted.
counted() {
  local name=$1; shift
  local ok=0 bad=0 status=0
  echo "== $name"
  "$@" > "$logs/stage" 2>&1 || status=$?
  ok=$(( $(sum 's/^test result: .* \([0-9]*\) passed; .*/\1/p') + $(grep -c '^ *--- PASS' "$logs/stage") ))
  bad=$(( $(sum 's/^test result: .* \([0-9]*\) failed; .*/\1/p') + $(grep -c '^ *--- FAIL' "$logs/stage") ))
  if [ $((ok + bad)) -eq 0 ] || { [ "$status" -ne 0 ] && [ "$bad" -eq 0 ]; }; then
    bad=$((bad + 1))
  fi
  if [ "$bad" -ne 0 ]; then
    grep -v '^ok  \|--- PASS' "$logs/stage" | tail -n 400
    echo "FAILED: $name ($bad)"
  fi
  echo "$name: $ok passed, $bad failed"
  passed=$((passed + ok))
  failed=$((failed + bad))
}

sum() {
  local total=0 number
  for number in $(sed -n "$1" "$logs/stage"); do
    total=$((total + number))
  done
  echo "$total"
}

stage format cargo fmt --all --check
stage licences tests/deny.sh
stage lints cargo clippy --workspace --all-targets --quiet -- -D warnings
counted rust cargo test --workspace --no-fail-fast
stage build cargo build --bin weir
counted real tests/real/run.sh

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
