// Command record asks the code of kube-apiserver itself again for every input in core/tests/data and writes its answers
// beside them. Run it in this folder: go run . ../data
package main

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	jsonserializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"
)

// answer is one line of a file, the input under "in".
type answer map[string]any

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: record FOLDER")
		os.Exit(2)
	}
	for name, ask := range map[string]func(string) (answer, error){
		"continue_tokens": token,
		"statuses":        status,
		"accepts":         accept,
		"request_infos":   requestInfo,
	} {
		if err := rewrite(filepath.Join(os.Args[1], name+".jsonl"), ask); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
			os.Exit(1)
		}
	}
}

func rewrite(path string, ask func(string) (answer, error)) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var fresh bytes.Buffer
	encoder := json.NewEncoder(&fresh)
	encoder.SetEscapeHTML(false)
	lines := bufio.NewScanner(bytes.NewReader(old))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line struct {
			In string `json:"in"`
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return err
		}
		found, err := ask(line.In)
		if err != nil {
			return fmt.Errorf("%s: %w", line.In, err)
		}
		found["in"] = line.In
		if err := encoder.Encode(found); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return os.WriteFile(path, fresh.Bytes(), 0o644)
}

func token(text string) (answer, error) {
	key, rv, err := storage.DecodeContinue(text, "")
	if err != nil {
		return answer{"error": err.Error()}, nil
	}
	return answer{"key": key, "rv": rv}, nil
}

// status leaves out encodings that do not exist: YAML has none for control characters.
func status(text string) (answer, error) {
	var object metav1.Status
	if err := json.Unmarshal([]byte(text), &object); err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	asText := func(options jsonserializer.SerializerOptions) runtime.Serializer {
		return jsonserializer.NewSerializerWithOptions(jsonserializer.DefaultMetaFactory, scheme, scheme, options)
	}
	found := answer{}
	for name, serializer := range map[string]runtime.Serializer{
		"json":   asText(jsonserializer.SerializerOptions{}),
		"pretty": asText(jsonserializer.SerializerOptions{Pretty: true}),
		"yaml":   asText(jsonserializer.SerializerOptions{Yaml: true}),
		"pb":     protobuf.NewSerializer(scheme, scheme),
	} {
		var body bytes.Buffer
		if err := serializer.Encode(&object, &body); err != nil {
			continue
		}
		found[name] = body.String()
		if name == "pb" {
			found[name] = hex.EncodeToString(body.Bytes())
		}
	}
	return found, nil
}

// endpoint allows what the handlers of a resource allow.
type endpoint struct{ isCustom bool }

func (e endpoint) AllowsMediaTypeTransform(_, subtype string, kind *schema.GroupVersionKind) bool {
	isText := subtype == "json" || subtype == "yaml"
	if kind == nil {
		return isText || !e.isCustom
	}
	if kind.Group != "meta.k8s.io" || (kind.Version != "v1" && kind.Version != "v1beta1") {
		return false
	}
	isMetadata := kind.Kind == "PartialObjectMetadata" || kind.Kind == "PartialObjectMetadataList"
	return isMetadata || (kind.Kind == "Table" && isText)
}

func (e endpoint) AllowsServerVersion(version string) bool { return version == "v1" }

func (e endpoint) AllowsStreamSchema(schema string) bool { return schema == "watch" }

func media(subtype string, hasStream bool) runtime.SerializerInfo {
	info := runtime.SerializerInfo{
		MediaType:        "application/" + subtype,
		MediaTypeType:    "application",
		MediaTypeSubType: subtype,
	}
	if hasStream {
		info.StreamSerializer = &runtime.StreamSerializerInfo{}
	}
	return info
}

func accept(header string) (answer, error) {
	supported := []runtime.SerializerInfo{
		media("json", true), media("yaml", false), media("vnd.kubernetes.protobuf", true),
	}
	negotiate := func(restrictions negotiation.EndpointRestrictions) string {
		options, ok := negotiation.NegotiateMediaTypeOptions(header, supported, restrictions)
		if !ok {
			return "none"
		}
		transform, pretty := "", ""
		if options.Convert != nil {
			transform = options.Convert.Kind + "." + options.Convert.Version
		}
		if options.Pretty {
			pretty = "pretty"
		}
		return options.Accepted.MediaType + " " + transform + " " + pretty
	}
	return answer{
		"builtin": negotiate(endpoint{}),
		"custom":  negotiate(endpoint{isCustom: true}),
		"error":   negotiate(negotiation.DefaultEndpointRestrictions),
	}, nil
}

func requestInfo(text string) (answer, error) {
	method, target, _ := strings.Cut(text, " ")
	address, err := url.ParseRequestURI(target)
	if err != nil {
		return answer{"error": "not a request URI"}, nil
	}
	factory := request.RequestInfoFactory{
		APIPrefixes:          sets.NewString("api", "apis"),
		GrouplessAPIPrefixes: sets.NewString("api"),
	}
	info, err := factory.NewRequestInfo(&http.Request{Method: method, URL: address})
	if err != nil {
		return answer{"error": err.Error()}, nil
	}
	return answer{"info": []string{
		fmt.Sprint(info.IsResourceRequest), info.Path, info.Verb, info.APIPrefix, info.APIGroup, info.APIVersion,
		info.Namespace, info.Resource, info.Subresource, info.Name, info.FieldSelector, info.LabelSelector,
	}}, nil
}
