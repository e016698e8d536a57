package suite

import (
	"fmt"
	"hash/fnv"
	"math/big"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"testing"

	"weir.dev/tests/real/client"
	"weir.dev/tests/real/cluster"
)

// shardCounts are the partitions that are tried.
var shardCounts = []int{1, 2, 3, 4, 7, 16}

// shardHeader is where weir says which selector it applied.
const shardHeader = "Weir-Shard-Selector"

// shardRange is one half-open part of the 64-bit hash space. The end may be 2^64, which no uint64 can hold.
type shardRange struct {
	field    string
	from, to *big.Int
}

// partition cuts the hash space into n ranges of about the same size.
func partition(field string, n int) []shardRange {
	whole := new(big.Int).Lsh(big.NewInt(1), 64)
	cut := func(i int) *big.Int {
		at := new(big.Int).Mul(whole, big.NewInt(int64(i)))
		return at.Div(at, big.NewInt(int64(n)))
	}
	var ranges []shardRange
	for i := range n {
		ranges = append(ranges, shardRange{field, cut(i), cut(i + 1)})
	}
	return ranges
}

// String is the canonical form of the selector.
func (r shardRange) String() string {
	return fmt.Sprintf("shardRange(object.metadata.%s, '0x%016x', '0x%016x')", r.field, r.from, r.to)
}

func (r shardRange) query() string { return "&shardSelector=" + url.QueryEscape(r.String()) }

// takes is the reference: FNV-1a of the field's bytes.
func (r shardRange) takes(o client.Object) bool {
	field := o.Metadata.UID
	if r.field == "namespace" {
		field = o.Metadata.Namespace
	}
	hash := fnv.New64a()
	hash.Write([]byte(field))
	at := new(big.Int).SetUint64(hash.Sum64())
	return at.Cmp(r.from) >= 0 && at.Cmp(r.to) < 0
}

// gated is a client of the apiserver that has the shard feature.
func gated(t testing.TB) *client.Client {
	c := client.New(plane.Gated.Direct(), cluster.AdminToken, agent(t, "gated"))
	t.Cleanup(c.Close)
	return c
}

// TestSH01_ShardedListsPartitionTheList asks for every range of every partition at one revision.
func TestSH01_ShardedListsPartitionTheList(t *testing.T) {
	t.Parallel()
	for _, k := range bothKinds {
		space := namespace(t)
		rv := populate(t, k, space, 60)
		awaitMirror(t, mirrored(t, cluster.AdminToken), k.in(space), rv)
		for _, field := range []string{"uid", "namespace"} {
			for _, n := range shardCounts {
				for _, scope := range []string{space, ""} {
					path := fmt.Sprintf("%s?resourceVersion=%d&resourceVersionMatch=Exact", k.in(scope), rv)
					t.Run(fmt.Sprintf("%s %s in %d over %q", k.plural, field, n, scope), func(t *testing.T) {
						t.Parallel()
						assertPartition(t, path, partition(field, n))
					})
				}
			}
		}
	}
}

// populate makes objects with uids of upstream's choice, so that they are spread over the space.
func populate(t testing.TB, k kind, space string, objects int) uint64 {
	t.Helper()
	upstream := direct(t, cluster.AdminToken)
	var rv uint64
	for i := range objects {
		rv = write(t, upstream, http.MethodPost, k.in(space), k.object(fmt.Sprintf("s-%02d", i), fmt.Sprintf(`"half":"%d"`, i%2)))
	}
	return rv
}

func assertPartition(t *testing.T, path string, ranges []shardRange) {
	weir, upstream, reference := mirrored(t, cluster.AdminToken), direct(t, cluster.AdminToken), gated(t)
	var union []string
	for _, r := range ranges {
		answer := getMirrored(t, weir, path+r.query())
		want := reference.Get(t, path+r.query())
		assertShardInfo(t, answer, r)
		got := answer
		got.Body, want.Body = withoutShardInfo(answer.Body), withoutShardInfo(want.Body)
		assertSameAnswer(t, r.String(), got, want)
		for _, item := range parseList(t, answer.Body).Items {
			object, err := client.ParseObject(item)
			if err != nil || !r.takes(object) {
				t.Errorf("%s is not in %s (%v)", object.Key(), r, err)
			}
			union = append(union, string(item))
		}
	}
	// Upstream without the feature gives everything; both sides are put in the same order, for ranges are not keys.
	var whole []string
	for _, item := range parseList(t, upstream.Get(t, path).Body).Items {
		whole = append(whole, string(item))
	}
	slices.Sort(union)
	slices.Sort(whole)
	if !slices.Equal(union, whole) {
		t.Errorf("the ranges have %d items together, upstream has %d, or they are others", len(union), len(whole))
	}
}

var shardInfo = regexp.MustCompile(`,?"shardInfo":\{"selector":"[^"]*"\}`)

// withoutShardInfo takes out what upstream leaves out for custom resources.
func withoutShardInfo(body []byte) []byte { return shardInfo.ReplaceAll(body, nil) }

// assertShardInfo demands that weir says what it applied, for custom resources too.
func assertShardInfo(t testing.TB, answer client.Answer, r shardRange) {
	t.Helper()
	if plane.Weir.Plain {
		return
	}
	info := parseList(t, answer.Body).Metadata.ShardInfo
	if info == nil || info.Selector != r.String() {
		t.Errorf("shardInfo is %+v, want %s", info, r)
	}
	if header := answer.Header.Get(shardHeader); header != r.String() {
		t.Errorf("%s is %q, want %s", shardHeader, header, r)
	}
}

// TestSH01_ShardedPages pages through ranges.
func TestSH01_ShardedPages(t *testing.T) {
	t.Parallel()
	for _, k := range bothKinds {
		t.Run(k.plural, func(t *testing.T) {
			t.Parallel()
			space := namespace(t)
			rv := populate(t, k, space, 40)
			weir, reference := mirrored(t, cluster.AdminToken), gated(t)
			awaitMirror(t, weir, k.in(space), rv)
			for _, r := range partition("uid", 3) {
				path := fmt.Sprintf("%s?limit=4&labelSelector=half%s", k.in(space), r.query())
				query := fmt.Sprintf("%s&resourceVersion=%d&resourceVersionMatch=Exact", path, rv)
				for query != "" {
					got, want := getMirrored(t, weir, query), reference.Get(t, query)
					next, wanted := parseList(t, got.Body).Metadata.Continue, parseList(t, want.Body).Metadata.Continue
					if (next == "") != (wanted == "") || next != "" && readToken(t, next) != readToken(t, wanted) {
						t.Errorf("%s: token %q, want %q", query, next, wanted)
					}
					got.Body, want.Body = withoutShardInfo(withoutToken(got.Body)), withoutShardInfo(withoutToken(want.Body))
					assertSameAnswer(t, query, got, want)
					if query = ""; next != "" {
						query = path + "&continue=" + next
					}
				}
			}
		})
	}
}

// TestSH03_BrokenShardSelectorIsABadRequest is a ruling of weir's own: upstream with the feature answers 500.
func TestSH03_BrokenShardSelectorIsABadRequest(t *testing.T) {
	t.Parallel()
	want := http.StatusBadRequest
	if plane.Weir.Plain {
		want = http.StatusInternalServerError
	}
	weir := mirrored(t, cluster.AdminToken)
	for _, selector := range []string{
		"x", "shardRange()", "shardRange(object.metadata.name, '0x0000000000000000', '0x8000000000000000')",
		"shardRange(object.metadata.uid, '0x8000000000000000', '0x0000000000000000')",
		"shardRange(object.metadata.uid, '0X0000000000000000', '0x8000000000000000')",
		"shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000') && true",
		" ",
	} {
		for _, query := range []string{"?resourceVersion=0", "?watch=1&resourceVersion=0", "?"} {
			path := configMaps.in("lock") + query + "&shardSelector=" + url.QueryEscape(selector)
			if answer := weir.Must(t, client.Request{Path: path}); answer.Status != want {
				t.Errorf("%s: %d %s, want %d", path, answer.Status, client.Excerpt(answer.Body), want)
			}
		}
	}
}

// TestSH03_ShortBoundsAreAccepted is another: upstream takes sixteen digits only.
func TestSH03_ShortBoundsAreAccepted(t *testing.T) {
	t.Parallel()
	if plane.Weir.Plain {
		t.Skip("upstream refuses short bounds")
	}
	weir := mirrored(t, cluster.AdminToken)
	short := "&shardSelector=" + url.QueryEscape("shardRange(object.metadata.uid, '0x0', '0x8000000000000000')")
	full := partition("uid", 2)[0]
	answer := getMirrored(t, weir, configMaps.in("lock")+"?resourceVersion=0"+short)
	assertShardInfo(t, answer, full)
	for _, item := range parseList(t, answer.Body).Items {
		if object, err := client.ParseObject(item); err != nil || !full.takes(object) {
			t.Errorf("%s is not in %s (%v)", object.Key(), full, err)
		}
	}
}

// TestSH02_ShardSelectorIsNeverIgnored asks in forms that weir can't serve, and for a deletion.
func TestSH02_ShardSelectorIsNeverIgnored(t *testing.T) {
	t.Parallel()
	if plane.Weir.Plain {
		t.Skip("this apiserver applies the selector everywhere")
	}
	space := namespace(t)
	populate(t, configMaps, space, 8)
	weir := mirrored(t, cluster.AdminToken)
	half := partition("uid", 2)[0].query()
	table := http.Header{"Accept": {"application/json;as=Table;v=v1;g=meta.k8s.io"}}
	yaml := http.Header{"Accept": {"application/yaml"}}
	for _, r := range []client.Request{
		{Path: configMaps.in(space) + "?resourceVersion=0" + half, Header: table},
		{Path: configMaps.in(space) + "?resourceVersion=0" + half, Header: yaml},
		{Path: "/api/v1/namespaces/" + space + "/events?resourceVersion=0" + half},
	} {
		if answer := weir.Must(t, r); answer.Status != http.StatusNotAcceptable {
			t.Errorf("%s %v: %d %s, want 406", r.Path, r.Header, answer.Status, client.Excerpt(answer.Body))
		}
	}
	broken := weir.Must(t, client.Request{Path: configMaps.in(space) + "?shardSelector=%zz"})
	if broken.Status != http.StatusBadRequest {
		t.Errorf("an undecodable selector: %d, want 400", broken.Status)
	}
}

// TestSH09_ShardedDeletionDeletesNothingElse must never reach an upstream that would delete everything.
func TestSH09_ShardedDeletionDeletesNothingElse(t *testing.T) {
	t.Parallel()
	space := namespace(t)
	populate(t, configMaps, space, 12)
	upstream, weir := direct(t, cluster.AdminToken), mirrored(t, cluster.AdminToken)
	half := partition("uid", 2)[0]
	answer := weir.Must(t, client.Request{Method: http.MethodDelete, Path: configMaps.in(space) + "?" + half.query()})
	if !plane.Weir.Plain && answer.Status < 400 {
		t.Errorf("the deletion was answered with %d", answer.Status)
	}
	left := 0
	for _, item := range parseList(t, upstream.Get(t, configMaps.in(space)).Body).Items {
		if object, err := client.ParseObject(item); err == nil && !half.takes(object) {
			left++
		}
	}
	if left == 0 {
		t.Error("objects outside the range are gone")
	}
}
