#!/usr/bin/env bash
# Builds what is missing and measures answers that have to be fresh, at weir (WEIR_BIN, else target/debug/weir) and at the
# apiservers; prints Markdown. A bound in counts that is broken is exit code 1, one in time is only said to be missed.
#   BENCH_SECONDS=8       how long each way of asking is measured in each cell     BENCH_LISTS=40     lists a second, pages a quarter
#   BENCH_OBJECTS=100000  the large collection     BENCH_WATCHES=10000 BENCH_RATE=1000     WatchLists, and how many a second
#   BENCH_SERVERS=2       over how many apiservers upstream's own clients are spread; weir's feed reads one
set -euo pipefail
cd "$(dirname "$0")/.."
exec go run ./bench
