package deploy

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// find is the first group of an expression in a file of the checkout.
func find(t *testing.T, file, expression string) string {
	t.Helper()
	root, err := checkout()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	hit := regexp.MustCompile("(?m)" + expression).FindSubmatch(text)
	if hit == nil {
		t.Fatalf("%s has no %s", file, expression)
	}
	return string(hit[1])
}

func TestManifestsNameTheImageOfThisVersion(t *testing.T) {
	image := "weir:" + find(t, "Cargo.toml", `^version = "(.*)"$`)
	for _, set := range theManifests(t).sets {
		if got := set.Spec.Template.Spec.Containers[0].Image; got != image {
			t.Errorf("%s has the image %s, not %s", set.Name, got, image)
		}
	}
	for _, file := range []string{"deploy/Dockerfile", "deploy/kubernetes/README.md"} {
		if got := find(t, file, `--tag (\S+) \.`); got != image {
			t.Errorf("%s builds %s, not %s", file, got, image)
		}
	}
}

func TestTheImageFitsThePods(t *testing.T) {
	const file = "deploy/Dockerfile"
	for _, set := range theManifests(t).sets {
		spec := set.Spec.Template.Spec.SecurityContext
		if got := find(t, file, `^USER (\d+:\d+)$`); got != strconv.FormatInt(*spec.RunAsUser, 10)+":"+strconv.FormatInt(*spec.RunAsGroup, 10) {
			t.Errorf("%s runs as %d:%d, the image as %s", set.Name, *spec.RunAsUser, *spec.RunAsGroup, got)
		}
		if command := set.Spec.Template.Spec.Containers[0].Command; command != nil {
			t.Errorf("%s takes %v in place of the image's entry point", set.Name, command)
		}
	}
	binary := find(t, file, `^COPY --from=build \S+/target/release/weir (\S+)$`)
	if entry := find(t, file, `^ENTRYPOINT \["(.*)"\]$`); entry != binary {
		t.Errorf("the image starts %s, and weir is at %s", entry, binary)
	}
	minor := func(version string) int {
		number, err := strconv.Atoi(strings.TrimPrefix(version, "1."))
		if err != nil {
			t.Fatal(err)
		}
		return number
	}
	compiler, needed := find(t, file, `^FROM \S*rust:(1\.\d+)-`), find(t, "Cargo.toml", `^rust-version = "(.*)"$`)
	if minor(compiler) < minor(needed) {
		t.Errorf("the image is built with Rust %s, and weir needs %s", compiler, needed)
	}
}
