#!/usr/bin/env bash
# Builds the real etcd, kube-apiserver and kubectl into ${WEIR_REAL_BIN:-~/.cache/weir-real}/<hash of the sources>, where a
# checkout finds them again; prints that directory. Cold: about 7 minutes on two cores. Warm: nothing is built.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$here"
key=$(cat go.sum cmd/*/main.go build.sh | sha256sum | cut -c1-16)
out=${WEIR_REAL_BIN:-$HOME/.cache/weir-real}/$key
mkdir -p "$out"

version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
number=${version#v}
stamps=()
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
  stamps+=(-X "$package.gitVersion=$version" -X "$package.gitMajor=${number%%.*}")
  minor=${number#*.}
  stamps+=(-X "$package.gitMinor=${minor%%.*}")
done

for name in etcd kube-apiserver kubectl; do
  [ -x "$out/$name" ] && continue
  echo "building $name ($version) into $out" >&2
  # The rename makes a binary appear whole or not at all, also when a build is interrupted.
  go build -buildvcs=false -ldflags "-s -w ${stamps[*]}" -o "$out/.$name.partial" "./cmd/$name"
  mv "$out/.$name.partial" "$out/$name"
done
echo "$out"
