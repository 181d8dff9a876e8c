package conformance

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"html/template"
	"math"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/plumbline/plumbline/suites/report/render"
)

// ReadEvidence reads the first limit bytes of an evidence file, and says how long
// the file is.
type ReadEvidence func(path string, limit int) (head []byte, size int64, err error)

// How much evidence a rendering shows: of a file the first bytes if it is text, all of
// what is not if it is no longer than data, and of all files together, as they stand in the
// rendering. Each test has its share of what those before it have left: of many failures none is
// without evidence. The files themselves stand beside the report, whole.
//
// The steps of all tests have a quota of their own; the last of a test's are shown, and the others
// stand in the JSON.
type quota struct{ text, data, all, steps int }

var ( // const: a struct cannot be
	pageQuota     = quota{text: 64 << 10, data: 256 << 10, all: 2 << 20, steps: 2816 << 10} // the suite keeps captures of up to 256 KiB
	junitQuota    = quota{text: 8 << 10, all: 1 << 20, steps: 1 << 20}                      // text alone
	markdownQuota = quota{steps: 384 << 10}                                                 // a job's summary takes 1 MiB, and the table of all tests is a third
)

// excerpt is one evidence file as it is quoted.
type excerpt struct {
	Path string
	Note string // why Text is not the whole file; empty if it is
	Text string
	Data []byte // the whole file, if it is not text and is shown
}

// Link holds what is not text, for a page that is to be whole without other files.
// Base64 needs no escape.
func (e excerpt) Link() template.URL {
	return template.URL("data:application/octet-stream;base64," + base64.StdEncoding.EncodeToString(e.Data))
}

// Name is that of the file alone.
func (e excerpt) Name() string { return path.Base(e.Path) }

// quoter quotes evidence and steps of so many tests until its quota is used up.
type quoter struct {
	read ReadEvidence // nil: nothing can be read
	quota
	tests int // that are still to come; none is said: as many as come
}

// next are the steps of the next test that are shown, how many there were before them, and its evidence.
func (q *quoter) next(t Test) (steps []Step, before int, evidence []excerpt) {
	left := q.steps / max(1, q.tests)
	for before = len(t.Steps); before > 0; before-- {
		cost := stepCost(t.Steps[before-1])
		if cost > left {
			break
		}
		left -= cost
		q.steps -= cost
	}
	return t.Steps[before:], before, q.excerpts(t)
}

// stepCost is about what a step takes as it stands: escaped, as a row of a table.
func stepCost(s Step) int {
	const row = 80
	_, did := fitting([]byte(s.Did), math.MaxInt)
	_, came := fitting([]byte(s.Came), math.MaxInt)
	return row + did + came
}

// excerpts are those of the next test.
func (q *quoter) excerpts(t Test) []excerpt {
	left := q.all / max(1, q.tests)
	q.tests--
	q.all -= left
	var out []excerpt
	for _, file := range t.Evidence {
		out = append(out, q.excerpt(file, &left))
	}
	q.all += left
	return out
}

// earlier says that steps before those shown are elsewhere; empty: there are none.
func earlier(before int, shown []Step) string {
	switch {
	case before == 0:
		return ""
	case len(shown) == 0:
		return fmt.Sprintf("%s: see %s", render.Plural(before, "step"), JSONFile)
	}
	return fmt.Sprintf("%s before these: see %s", render.Plural(before, "step"), JSONFile)
}

func (q *quoter) excerpt(file string, left *int) excerpt {
	e := excerpt{Path: render.Line(file)}
	limit := min(max(q.text, q.data), *left)
	switch {
	case q.read == nil:
		e.Note = "not quoted here"
		return e
	case limit <= 0:
		e.Note = "not quoted here: there is too much evidence for one page"
		return e
	}
	head, size, err := q.read(file, limit)
	if err != nil {
		e.Note = "cannot be read: " + render.Line(err.Error())
		return e
	}
	head = head[:min(len(head), limit)]
	quoted := head[:min(len(head), q.text)]
	if !isText(quoted) {
		e.Note = fmt.Sprintf("%d bytes, not text", size)
		if cost := base64.StdEncoding.EncodedLen(len(head)); size == int64(len(head)) && len(head) <= q.data && cost <= *left {
			e.Data = head
			*left -= cost
		}
		return e
	}
	quoted, cost := fitting(quoted, *left)
	*left -= cost
	e.Text = render.Lines(strings.ToValidUTF8(string(quoted), ""))
	if rest := size - int64(len(quoted)); rest > 0 {
		e.Note = fmt.Sprintf("the first %d of %d bytes", len(quoted), size)
	}
	return e
}

// fitting is the beginning of a text that is no longer than a limit when it is escaped, and how long it
// is then.
func fitting(text []byte, limit int) (head []byte, cost int) {
	for i, b := range text {
		each := 1
		if strings.IndexByte(`<>&'"`, b) >= 0 {
			each = len("&#34;")
		}
		if cost+each > limit {
			return text[:i], cost
		}
		cost += each
	}
	return text, cost
}

// isText tells text, which may be cut within its last character, from e.g. a
// packet capture.
func isText(head []byte) bool {
	if bytes.IndexByte(head, 0) >= 0 {
		return false
	}
	for n := 0; n < utf8.UTFMax && n <= len(head); n++ {
		if utf8.Valid(head[:len(head)-n]) {
			return true
		}
	}
	return false
}
