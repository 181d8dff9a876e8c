package render

import (
	"regexp"
	"strings"
)

// Citation is a source, and where it can be read; Link is empty where that is not known.
type Citation struct{ Text, Link string }

var (
	documents = regexp.MustCompile(`^https://(kubernetes\.io|github\.com/kubernetes)/[A-Za-z0-9._~/#-]+$`) // const; where promises are written
	kep       = regexp.MustCompile(`^KEP-([0-9]+)`)                                                        // const
)

// Cite links a source that is a document of Kubernetes', or a KEP, by its issue.
func Cite(source string) Citation {
	c := Citation{Text: Line(source)}
	if m := kep.FindStringSubmatch(c.Text); m != nil {
		c.Link = "https://kep.k8s.io/" + m[1]
	}
	if documents.MatchString(c.Text) {
		c.Link = c.Text
		c.Text = strings.TrimPrefix(c.Text, "https://")
	}
	return c
}
