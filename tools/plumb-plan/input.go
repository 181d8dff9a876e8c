package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/plumbline/plumbline/dataplane/objects"
)

// object is what has to be known of one to sort it.
type object struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Items []any `json:"items"`
}

// decode reads objects, also those in a List as kubectl prints it. Of several
// Nodes it takes the one that node names, which must be there if any is; without a
// name there must be no more than one, whose name it is then. An error that wraps
// objects.Unusable comes beside a snapshot of all the rest.
func decode(text []byte, node *string) (*objects.Snapshot, error) {
	docs, err := unpack(text)
	if err != nil {
		return nil, err
	}
	var nodes []string
	var rest [][]byte
	for _, d := range docs {
		if d.Kind == "Node" {
			nodes = append(nodes, d.Metadata.Name)
			if *node != "" && d.Metadata.Name != *node {
				continue
			}
		}
		rest = append(rest, d.text)
	}
	if *node == "" && len(nodes) == 1 {
		*node = nodes[0]
	}
	if *node == "" && len(nodes) > 1 {
		return nil, fmt.Errorf("%d Nodes (%s): say whose plan it is by --node", len(nodes), strings.Join(nodes, ", "))
	}
	if len(nodes) > 0 && !slices.Contains(nodes, *node) {
		return nil, fmt.Errorf("--node %q: no such Node; there are: %s", *node, strings.Join(nodes, ", "))
	}
	return objects.Decode(bytes.Join(rest, []byte("\n---\n")))
}

type document struct {
	object
	text []byte
}

// unpack splits a stream into its objects.
func unpack(text []byte) ([]document, error) {
	var out []document
	for i, doc := range bytes.Split(append([]byte("\n"), text...), []byte("\n---")) {
		var o object
		if err := yaml.Unmarshal(doc, &o); err != nil {
			return nil, fmt.Errorf("document %d: %w", i+1, err)
		}
		if o.Kind != "List" {
			out = append(out, document{o, doc})
			continue
		}
		for _, item := range o.Items {
			one, err := yaml.Marshal(item)
			if err != nil {
				return nil, fmt.Errorf("document %d: %w", i+1, err)
			}
			inner, err := unpack(one)
			if err != nil {
				return nil, err
			}
			out = append(out, inner...)
		}
	}
	return out, nil
}
