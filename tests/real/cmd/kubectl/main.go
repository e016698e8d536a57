// Command kubectl is the real kubectl, built from its module. It needs the version stamps of build.sh: with an empty
// version of its own it refuses to start.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
)

func main() {
	os.Exit(cli.Run(cmd.NewDefaultKubectlCommand()))
}
