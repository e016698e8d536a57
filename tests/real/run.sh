#!/usr/bin/env bash
# Builds what is missing and runs the whole suite against weir (WEIR_BIN, else target/debug/weir): as one process, and again
# as shard nodes and proxies. The last line counts; the exit code is 0 only if something ran and nothing failed.
#   WEIR_PLAIN=1  an apiserver in weir's place     WEIR_LONG=1  the long modes     WEIR_KEEP=1  keeps logs
set -uo pipefail
cd "$(dirname "$0")"
./build.sh > /dev/null || { echo "real: the programs could not be built" >&2; exit 1; }
unformatted=$(gofmt -l .)
[ -z "$unformatted" ] || { echo "real: not formatted: $unformatted" >&2; exit 1; }
go vet ./... || exit 1
output=$(mktemp)
trap 'rm -f "$output"' EXIT
code=0
limit=30m
[ -z "${WEIR_LONG:-}" ] || limit=180m

# tests PACKAGES ARGUMENTS...: one package after the other, for each has a machine full of processes.
tests() {
  local packages=$1; shift
  # shellcheck disable=SC2086 # the packages are words
  go test $packages -p 1 -count=1 -timeout "${WEIR_TIMEOUT:-$limit}" -json "$@" >> "$output" || code=1
}

if [ -n "${WEIR_PLAIN:-}" ]; then
  tests "$(go list ./... | grep -v /faults | tr '\n' ' ')" "$@"
else
  tests ./... "$@"
  WEIR_TOPOLOGY=processes tests ./suite "$@"
fi
go run ./cmd/counts < "$output" || code=1
exit "$code"
