// Package tape keeps what was recorded of one rollout: a folder of files, which are what
// the verdict is given on, now and again later.
//
//	rollout.json      the circumstances (verdict.Settings)
//	requests.jsonl    attempts of all streams
//	events.jsonl      observed states and acts
//	lb-events.jsonl   what the load balancer said of its servers
//	conns.jsonl       connections it served
//	packets.jsonl     packets of requests that were not answered at once, where nodes are within reach
//
// Files that are kept for long may be compressed: NAME.gz is read where there is no NAME.
package tape

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/plumbline/plumbline/fixtures/record"
	"github.com/plumbline/plumbline/suites/verdict"
)

// Schema is the version that rollout.json states.
const Schema = "plumbline.rollout/v1"

const (
	rolloutFile  = "rollout.json"
	requestsFile = "requests.jsonl"
	eventsFile   = "events.jsonl"
	lbEventsFile = "lb-events.jsonl"
	connsFile    = "conns.jsonl"
	packetsFile  = "packets.jsonl"
)

// rollout is what rollout.json holds.
type rollout struct {
	Schema   string           `json:"schema"`
	Settings verdict.Settings `json:"settings"`
	Streams  []Stream         `json:"streams,omitempty"` // which are judged, each by itself; none: Main
}

// Stream is one stream of attempts, and the IP family that it tells of.
type Stream struct {
	Name   record.Stream `json:"name"`
	Family record.Family `json:"family,omitempty"` // empty: there is one
}

// Tape records. Safe for concurrent use.
type Tape struct {
	requests *record.Writer[record.Attempt]
	events   *record.Writer[record.Event]
	lbEvents *record.Writer[record.Event]
	conns    *record.Writer[record.Conn]
	packets  *record.Writer[record.Packet]
}

// Create begins the recording of a rollout in dir, which it makes.
func Create(dir string, s verdict.Settings, streams ...Stream) (_ *Tape, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the folder of records: %w", err)
	}
	b, err := json.MarshalIndent(rollout{Schema, s, streams}, "", " ")
	if err != nil {
		return nil, fmt.Errorf("write the circumstances of a rollout: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, rolloutFile), append(b, '\n'), 0o644); err != nil {
		return nil, fmt.Errorf("write the circumstances of a rollout: %w", err)
	}
	t := &Tape{}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.Close())
		}
	}()
	if t.requests, err = record.Create[record.Attempt](filepath.Join(dir, requestsFile)); err != nil {
		return nil, err
	}
	if t.events, err = record.Create[record.Event](filepath.Join(dir, eventsFile)); err != nil {
		return nil, err
	}
	if t.lbEvents, err = record.Create[record.Event](filepath.Join(dir, lbEventsFile)); err != nil {
		return nil, err
	}
	if t.conns, err = record.Create[record.Conn](filepath.Join(dir, connsFile)); err != nil {
		return nil, err
	}
	t.packets, err = record.Create[record.Packet](filepath.Join(dir, packetsFile))
	return t, err
}

// Attempt keeps an attempt of any stream.
func (t *Tape) Attempt(a record.Attempt) { t.requests.Write(a) }

// Event keeps an observed change, or an act.
func (t *Tape) Event(e record.Event) { t.events.Write(e) }

// Balancer keeps what a load balancer recorded meanwhile.
func (t *Tape) Balancer(events []record.Event, conns []record.Conn) {
	for _, e := range events {
		t.lbEvents.Write(e)
	}
	for _, c := range conns {
		t.conns.Write(c)
	}
}

// Packet keeps a packet.
func (t *Tape) Packet(p record.Packet) { t.packets.Write(p) }

// Close ends the recording, and says what of it could not be kept.
func (t *Tape) Close() error {
	var err error
	if t.requests != nil {
		err = t.requests.Close()
	}
	if t.events != nil {
		err = errors.Join(err, t.events.Close())
	}
	if t.lbEvents != nil {
		err = errors.Join(err, t.lbEvents.Close())
	}
	if t.conns != nil {
		err = errors.Join(err, t.conns.Close())
	}
	if t.packets != nil {
		err = errors.Join(err, t.packets.Close())
	}
	return err
}

// Read reads a recording that was closed: what is known of each of its streams.
func Read(dir string) ([]verdict.Input, error) {
	var in verdict.Input
	b, err := contents(dir, rolloutFile)
	if err != nil {
		return nil, err
	}
	var r rollout
	if err := json.Unmarshal(b, &r); err != nil || r.Schema != Schema {
		return nil, fmt.Errorf("read %s: it is no %s file", filepath.Join(dir, rolloutFile), Schema)
	}
	attempts, err := records[record.Attempt](dir, requestsFile)
	if err != nil {
		return nil, err
	}
	if in.Events, err = records[record.Event](dir, eventsFile); err != nil {
		return nil, err
	}
	said, err := records[record.Event](dir, lbEventsFile)
	if err != nil {
		return nil, err
	}
	in.Events = append(in.Events, said...)
	if in.Conns, err = records[record.Conn](dir, connsFile); err != nil {
		return nil, err
	}
	in.Packets, err = records[record.Packet](dir, packetsFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // in runs before there were such, nobody looked
		return nil, err
	}
	return r.inputs(in, attempts), nil
}

// inputs are one for each stream; what is not attempts they share.
func (r rollout) inputs(shared verdict.Input, attempts []record.Attempt) []verdict.Input {
	if len(r.Streams) == 0 {
		r.Streams = []Stream{{Name: record.Main}}
	}
	of := map[record.Stream][]record.Attempt{}
	for _, a := range attempts {
		of[a.Stream] = append(of[a.Stream], a)
	}
	var all []verdict.Input
	for _, s := range r.Streams {
		in := shared
		in.Stream, in.Settings, in.Attempts, in.Control = s.Name, r.Settings, of[s.Name], of[record.Control]
		in.Settings.Family = s.Family
		all = append(all, in)
	}
	return all
}

func records[T any](dir, name string) ([]T, error) {
	b, err := contents(dir, name)
	if err != nil {
		return nil, err
	}
	recs, err := record.Read[T](bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", filepath.Join(dir, name), err)
	}
	return recs, nil
}

// contents of a file, or of the compressed one in its place.
func contents(dir, name string) ([]byte, error) {
	path := filepath.Join(dir, name)
	b, err := os.ReadFile(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return b, wrap(path, err)
	}
	f, zipErr := os.Open(path + ".gz")
	if zipErr != nil {
		return nil, wrap(path, err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, wrap(path+".gz", err)
	}
	b, err = io.ReadAll(z)
	return b, wrap(path+".gz", err)
}

func wrap(path string, err error) error {
	if err != nil {
		return fmt.Errorf("read the recording %s: %w", path, err)
	}
	return nil
}
