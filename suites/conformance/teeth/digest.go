package teeth

import (
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"

	"github.com/plumbline/plumbline/suites/conformance/behaviours"
)

// sources are the texts that rows of the table are about.
type sources struct {
	mutations, behaviours *scope
}

// common is what all mutations are written with; no row is about it.
const common = "changes"

// readSources reads both packages below the root of the source tree.
func readSources(root string) (s *sources, err error) {
	s = &sources{}
	if s.mutations, err = readScope(filepath.Join(root, "suites/conformance/mutant"), names); err != nil {
		return nil, fmt.Errorf("read the mutations: %w", err)
	}
	if s.behaviours, err = readScope(filepath.Join(root, "suites/conformance/behaviours"), ownNames); err != nil {
		return nil, fmt.Errorf("read the behaviours: %w", err)
	}
	return s, nil
}

// digest is of all that a mutation's row is about: its declaration, its entry in package mutant with
// what that is made of, and the files of the behaviours that are to catch it, with what these share
// with others in their package. What they ask with, package kit, is not in it.
func (s *sources) digest(name string, m mutation) (string, error) {
	sum := sha256.New()
	fmt.Fprintln(sum, m.Breaks, m.IPFamily, m.Caught)
	if m.Dataplane != "" || m.Holds != "" {
		fmt.Fprintln(sum, m.Dataplane, m.Holds)
	}
	entry := s.mutations.entries[name]
	fmt.Fprintln(sum, entry.text)
	used := map[string]bool{common: true}
	s.mutations.reach(entry.uses, used)
	delete(used, common)
	s.mutations.add(sum, used, func(part) bool { return true })
	for _, id := range m.Caught {
		file, ok := s.behaviours.files[behaviours.File(id)]
		if !ok {
			return "", fmt.Errorf("read behaviour %s: there is no %s", id, behaviours.File(id))
		}
		fmt.Fprint(sum, file.text)
		used := map[string]bool{}
		s.behaviours.reach(file.uses, used)
		s.behaviours.add(sum, used, func(p part) bool { return p.file != file.file && !p.promises })
	}
	return fmt.Sprintf("%x", sum.Sum(nil)[:6]), nil
}

// add writes the declarations of names, in their order, that are wanted.
func (s *scope) add(to io.Writer, used map[string]bool, wanted func(part) bool) {
	for _, name := range slices.Sorted(maps.Keys(used)) {
		for _, p := range s.named[name] {
			if wanted(p) {
				fmt.Fprintln(to, p.text)
			}
		}
	}
}
