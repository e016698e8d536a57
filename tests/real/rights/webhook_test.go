package rights

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"

	authorizationv1 "k8s.io/api/authorization/v1"
)

// judge is the webhook authorizer of the run. The apiserver is told its address before it starts.
var judge = newWebhook()

// effect is what the webhook says when a ruling takes a request.
type effect string

const (
	allow effect = "allow"
	deny  effect = "deny"
	// muddle is allowed and denied at once, which upstream takes for an error.
	muddle effect = "muddle"
)

// ruling is one rule of the webhook. An empty field takes everything.
type ruling struct {
	Effect                             effect
	Verb, Group, Resource, Subresource string
	Namespace, Name                    string
	// Field and Label are a term that has to be among those of the request's selector: "app=pump", "app!=pump"; or
	// "any" for a request with such a selector, "none" for one without.
	Field, Label string
}

// webhook decides by the rulings of the caller's name or of one of its groups; the first that takes the request counts, and
// without one it has no opinion.
type webhook struct {
	server *httptest.Server

	mu      sync.Mutex
	rulings map[string][]ruling
	// asked are the questions about callers that are to be listened to.
	asked map[string][]authorizationv1.ResourceAttributes
}

func newWebhook() *webhook {
	w := &webhook{rulings: map[string][]ruling{}, asked: map[string][]authorizationv1.ResourceAttributes{}}
	w.server = httptest.NewServer(http.HandlerFunc(w.answer))
	return w
}

func (w *webhook) kubeconfig() string {
	return fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: webhook, cluster: {server: %q}}]
users: [{name: apiserver}]
contexts: [{name: webhook, context: {cluster: webhook, user: apiserver}}]
current-context: webhook
`, w.server.URL)
}

// rule sets what the webhook says to callers with this name or group.
func (w *webhook) rule(who string, rulings ...ruling) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rulings[who] = rulings
}

// listen keeps the questions about a caller from now on, and forgets those so far.
func (w *webhook) listen(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked[name] = []authorizationv1.ResourceAttributes{}
}

// heard are the questions about a caller since listen, without those whether it may ask for reviews.
func (w *webhook) heard(name string) []authorizationv1.ResourceAttributes {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.asked[name])
}

func (w *webhook) answer(response http.ResponseWriter, request *http.Request) {
	var review authorizationv1.SubjectAccessReview
	if err := json.NewDecoder(request.Body).Decode(&review); err != nil {
		http.Error(response, err.Error(), http.StatusBadRequest)
		return
	}
	review.Status = w.decide(review.Spec)
	response.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(response).Encode(review) // an apiserver that has left needs no answer
}

func (w *webhook) decide(spec authorizationv1.SubjectAccessReviewSpec) authorizationv1.SubjectAccessReviewStatus {
	var status authorizationv1.SubjectAccessReviewStatus
	attributes := spec.ResourceAttributes
	if attributes == nil {
		return status
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if heard, listens := w.asked[spec.User]; listens && attributes.Resource != "selfsubjectaccessreviews" {
		w.asked[spec.User] = append(heard, *attributes)
	}
	for _, who := range append([]string{spec.User}, spec.Groups...) {
		for _, r := range w.rulings[who] {
			if r.takes(attributes) {
				status.Allowed, status.Denied = r.Effect != deny, r.Effect != allow
				status.Reason = fmt.Sprintf("the suite says %s to %q", r.Effect, who)
				return status
			}
		}
	}
	return status
}

func (r ruling) takes(a *authorizationv1.ResourceAttributes) bool {
	var fields, labels []string
	if a.FieldSelector != nil {
		for _, term := range a.FieldSelector.Requirements {
			fields = append(fields, written(term.Key, string(term.Operator), term.Values))
		}
	}
	if a.LabelSelector != nil {
		for _, term := range a.LabelSelector.Requirements {
			labels = append(labels, written(term.Key, string(term.Operator), term.Values))
		}
	}
	is := func(wanted, got string) bool { return wanted == "" || wanted == got }
	return is(r.Verb, a.Verb) && is(r.Group, a.Group) && is(r.Resource, a.Resource) && is(r.Subresource, a.Subresource) &&
		is(r.Namespace, a.Namespace) && is(r.Name, a.Name) && selects(r.Field, fields) && selects(r.Label, labels)
}

// selects tells whether the terms of a selector are what a ruling is about.
func selects(wanted string, terms []string) bool {
	switch wanted {
	case "":
		return true
	case "any":
		return len(terms) > 0
	case "none":
		return len(terms) == 0
	default:
		return slices.Contains(terms, wanted)
	}
}

// written is a term as a caller would have written it, where it is a simple one.
func written(key, operator string, values []string) string {
	joined := strings.Join(values, ",")
	switch operator {
	case "In":
		return key + "=" + joined
	case "NotIn":
		return key + "!=" + joined
	default:
		return key + " " + operator + " " + joined
	}
}
