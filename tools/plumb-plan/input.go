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
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"metadata"`
	Items []any `json:"items"`
}

// decode reads objects, also those in a List as kubectl prints it; those of other kinds than a
// dataplane reads are left out, and said are lines about them and about what nothing can be planned
// for. Of several Nodes it takes the one that node names, which must be there if any is; without a
// name there must be no more than one, whose name it is then. An error that wraps
// objects.Unusable comes beside a snapshot of all the rest.
func decode(text []byte, node *string) (snap *objects.Snapshot, said []string, err error) {
	docs, err := unpack(text)
	if err != nil {
		return nil, nil, err
	}
	docs, said, err = sift(docs)
	if err != nil {
		return nil, nil, err
	}
	if err := placed(docs, *node); err != nil {
		return nil, nil, err
	}
	rest, err := ofNode(docs, node)
	if err != nil {
		return nil, nil, err
	}
	if *node == "" {
		said = append(said, "no Node is in it and no --node is given: nothing is local, and there are no node ports")
	}
	snap, err = objects.Decode(bytes.Join(rest, []byte("\n---\n")))
	return snap, said, err
}

// ofNode leaves out other Nodes than the one whose plan it is, and finds its name.
func ofNode(docs []document, node *string) ([][]byte, error) {
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
	return rest, nil
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
		var any map[string]any
		if yaml.Unmarshal(doc, &any) == nil && len(any) == 0 { // nothing, or comments
			continue
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
