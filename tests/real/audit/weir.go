package audit

import (
	"strings"
)

// The user agents by which weir marks its own requests to upstream; its version stands where the suite can't know it.
const (
	feedMark   = "(feed)"
	reviewMark = "(review)"
	proofMark  = "(proof)"
	ownPrefix  = "weir/"
)

// Source is on whose behalf a request reached upstream.
type Source int

// The sources that the suite tells apart.
const (
	Client Source = iota
	Feed
	Review
	Proof
)

// Source tells weir's own requests from those of its clients. The mark alone is not enough: a review is asked with the
// client's token, so its user is the client's.
func (e Entry) Source() Source {
	if !strings.HasPrefix(e.UserAgent, ownPrefix) {
		return Client
	}
	switch {
	case strings.HasSuffix(e.UserAgent, feedMark):
		return Feed
	case strings.HasSuffix(e.UserAgent, reviewMark):
		return Review
	case strings.HasSuffix(e.UserAgent, proofMark):
		return Proof
	default:
		return Client
	}
}

// From keeps the entries of one source.
func From(entries []Entry, source Source) []Entry {
	var kept []Entry
	for _, e := range entries {
		if e.Source() == source {
			kept = append(kept, e)
		}
	}
	return kept
}

// IsOfItsOwnAccord tells whether weir asks for something that it can do without: who has which rights, so as to notice at once
// that one was taken away. It asks without knowing whether it may, and goes on without.
func (e Entry) IsOfItsOwnAccord() bool {
	return e.Verb == "list" && strings.HasPrefix(e.URI, "/apis/rbac.authorization.k8s.io/v1/")
}
