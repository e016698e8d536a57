package client

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Object is the part of any Kubernetes object that the suite reasons about.
type Object struct {
	Kind       string     `json:"kind"`
	APIVersion string     `json:"apiVersion"`
	Metadata   ObjectMeta `json:"metadata"`
}

// ObjectMeta is an object's metadata as far as the suite needs it.
type ObjectMeta struct {
	Name            string            `json:"name"`
	Namespace       string            `json:"namespace"`
	UID             string            `json:"uid"`
	ResourceVersion string            `json:"resourceVersion"`
	Labels          map[string]string `json:"labels"`
	Annotations     map[string]string `json:"annotations"`
}

// List is a decoded list whose items keep their bytes.
type List struct {
	Kind     string            `json:"kind"`
	Metadata ListMeta          `json:"metadata"`
	Items    []json.RawMessage `json:"items"`
}

// ListMeta is a list's metadata.
type ListMeta struct {
	ResourceVersion    string `json:"resourceVersion"`
	Continue           string `json:"continue"`
	RemainingItemCount *int64 `json:"remainingItemCount"`
	ShardInfo          *struct {
		Selector string `json:"selector"`
	} `json:"shardInfo"`
}

// Status is the body of an error.
type Status struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
	Reason  string `json:"reason"`
	Code    int    `json:"code"`
}

// endAnnotation marks the bookmark that ends the initial events of a stream.
const endAnnotation = "k8s.io/initial-events-end"

// CollectionPath is a collection in a namespace, or over all of them when it is given none. The root is the API's, as /api/v1.
func CollectionPath(root, namespace, plural string) string {
	if namespace == "" {
		return root + "/" + plural
	}
	return fmt.Sprintf("%s/namespaces/%s/%s", root, namespace, plural)
}

// Key is the object's place in its collection: namespace/name, or the name of a cluster-scoped object.
func (o Object) Key() string {
	if o.Metadata.Namespace == "" {
		return o.Metadata.Name
	}
	return o.Metadata.Namespace + "/" + o.Metadata.Name
}

// RV is the object's resourceVersion as a number; 0 when it has none.
func (o Object) RV() uint64 { return RV(o.Metadata.ResourceVersion) }

// EndsInitialEvents tells a bookmark with the initial-events-end annotation from others.
func (o Object) EndsInitialEvents() bool { return o.Metadata.Annotations[endAnnotation] == "true" }

// RV reads a resourceVersion; what is none reads as 0, which no object and no list has.
func RV(text string) uint64 {
	rv, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0
	}
	return rv
}

// ParseObject reads an object.
func ParseObject(raw []byte) (Object, error) {
	var object Object
	err := json.Unmarshal(raw, &object)
	return object, err
}

// ParseList reads a list.
func ParseList(raw []byte) (List, error) {
	var list List
	if err := json.Unmarshal(raw, &list); err != nil {
		return list, fmt.Errorf("list %s: %w", Excerpt(raw), err)
	}
	if !strings.HasSuffix(list.Kind, "List") {
		return list, fmt.Errorf("not a list: %s", Excerpt(raw))
	}
	return list, nil
}

// RV is the revision that the list names.
func (l List) RV() uint64 { return RV(l.Metadata.ResourceVersion) }

// Meta reads the object of an event; one that can't be read has no name and no revision, which every check rejects.
func (e Event) Meta() Object {
	object, _ := ParseObject(e.Object)
	return object
}

// Status reads the Status of an ERROR event.
func (e Event) Status() Status {
	var status Status
	_ = json.Unmarshal(e.Object, &status)
	return status
}
