#!/usr/bin/env bash
# Builds what is missing and runs the whole suite against weir (WEIR_BIN, else target/debug/weir). The last line counts;
# the exit code is 0 only if something ran and nothing failed.
#   WEIR_PLAIN=1  an apiserver in weir's place     WEIR_LONG=1  the long modes     WEIR_KEEP=1  keeps logs
set -uo pipefail
cd "$(dirname "$0")"
./build.sh > /dev/null || { echo "real: the programs could not be built" >&2; exit 1; }
unformatted=$(gofmt -l .)
[ -z "$unformatted" ] || { echo "real: not formatted: $unformatted" >&2; exit 1; }
go vet ./... || exit 1
output=$(mktemp)
trap 'rm -f "$output"' EXIT
go test ./... -count=1 -timeout "${WEIR_TIMEOUT:-20m}" -json "$@" > "$output"
code=$?
go run ./cmd/counts < "$output" || code=1
exit "$code"
