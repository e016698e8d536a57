#!/usr/bin/env bash
# cargo deny, built once for each version and kept outside the checkout.
set -euo pipefail
version=0.20.2
tools=${WEIR_TOOLS:-$HOME/.cache/weir-tools}/cargo-deny-$version
if [ ! -x "$tools/bin/cargo-deny" ]; then
  echo "building cargo-deny $version"
  cargo install --quiet --locked --version "$version" --root "$tools" cargo-deny
fi
"$tools/bin/cargo-deny" --log-level warn check licenses bans sources
