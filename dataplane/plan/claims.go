package plan

import (
	"slices"

	"github.com/plumbline/plumbline/dataplane/objects"
)

// Claims remembers which Services claim which frontends. A partial plan is only
// right about a frontend if it holds every Service that claims it: Rivals tells
// which to add. The zero value is empty and ready to use; not safe for
// concurrent use.
type Claims struct {
	first map[Key]objects.Name
	more  map[Key][]objects.Name // claims beyond the first: a mistake, and rare
}

// Set replaces what a Service claims.
func (c *Claims) Set(name objects.Name, old, new Service) {
	if c.first == nil {
		c.first, c.more = map[Key]objects.Name{}, map[Key][]objects.Name{}
	}
	for _, f := range old.Frontends {
		c.drop(f.Key, name)
	}
	for _, f := range new.Frontends {
		if owner, taken := c.first[f.Key]; taken && owner != name {
			c.more[f.Key] = append(c.more[f.Key], name)
			continue
		}
		c.first[f.Key] = name
	}
}

func (c *Claims) drop(k Key, name objects.Name) {
	rest := slices.DeleteFunc(c.more[k], func(n objects.Name) bool { return n == name })
	if c.first[k] == name {
		delete(c.first, k)
		if len(rest) > 0 {
			c.first[k], rest = rest[0], rest[1:]
		}
	}
	if len(rest) == 0 {
		delete(c.more, k)
		return
	}
	c.more[k] = rest
}

// Rivals are the other Services that claim a frontend.
func (c *Claims) Rivals(name objects.Name, k Key) []objects.Name {
	var out []objects.Name
	if owner, taken := c.first[k]; taken && owner != name {
		out = append(out, owner)
	}
	for _, n := range c.more[k] {
		if n != name {
			out = append(out, n)
		}
	}
	return out
}
