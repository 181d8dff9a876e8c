package dptest

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/plumbline/plumbline/dataplane/objects"
)

// decodeBad reads objects as a proxy does that must live with bad ones: what
// cannot be used is left out, with an error that names the object. A text of good
// objects only is refused: objects.Decode is for those.
func decodeBad(text []byte) (*objects.Snapshot, error) {
	snap := &objects.Snapshot{}
	var bad error
	for doc := range bytes.SplitSeq(append([]byte("\n"), text...), []byte("\n---")) {
		if len(bytes.TrimSpace(doc)) == 0 {
			continue
		}
		c, complaint, err := decodeOne(doc)
		if err != nil {
			return nil, err
		}
		bad = errors.Join(bad, complaint)
		snap.Apply(c)
	}
	if bad == nil {
		return nil, fmt.Errorf("there is no bad object")
	}
	return snap, nil
}

// decodeOne reads one document. The API's types are those of the objects' own
// conversions; only their names stop there.
func decodeOne(doc []byte) (c objects.Change, complaint, err error) {
	var head struct {
		Kind     string `json:"kind"`
		Metadata struct{ Namespace, Name string }
	}
	if err := yaml.Unmarshal(doc, &head); err != nil {
		return c, nil, err
	}
	switch head.Kind {
	case "Service":
		c.Service, complaint, err = as(doc, objects.FromService)
	case "Node":
		c.Node, complaint, err = as(doc, objects.FromNode)
	case "ServiceCIDR":
		c.ServiceCIDR, complaint, err = as(doc, objects.FromServiceCIDR)
	case "EndpointSlice":
		c.Slice, complaint, err = slice(doc, objects.FromEndpointSlice)
	default:
		err = fmt.Errorf("unknown kind %q", head.Kind)
	}
	name := strings.TrimPrefix(head.Metadata.Namespace+"/"+head.Metadata.Name, "/")
	if complaint != nil && !strings.Contains(complaint.Error(), name) {
		err = fmt.Errorf("the error about %s %s does not name it: %w", head.Kind, name, complaint)
	}
	return c, complaint, err
}

func as[In, Out any](doc []byte, convert func(*In) (Out, error)) (*Out, error, error) {
	var in In
	if err := yaml.UnmarshalStrict(doc, &in); err != nil {
		return nil, nil, err
	}
	out, complaint := convert(&in)
	return &out, complaint, nil
}

func slice[In, Out any](doc []byte, convert func(*In) (Out, bool, error)) (*Out, error, error) {
	used := true
	out, complaint, err := as(doc, func(in *In) (out Out, complaint error) {
		out, used, complaint = convert(in)
		return out, complaint
	})
	if !used {
		out = nil
	}
	return out, complaint, err
}
