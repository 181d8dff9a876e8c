package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// plain writes what a run logs for people: when, and what, one line each; -v has the log itself.
type plain struct {
	out     io.Writer
	colours bool
	lock    *sync.Mutex
	attrs   []slog.Attr
}

// newPlain writes to standard error, in colours if that is a terminal and NO_COLOR does not forbid
// them (no-color.org).
func newPlain() *plain {
	_, forbidden := os.LookupEnv("NO_COLOR")
	return &plain{out: os.Stderr, colours: !forbidden && term.IsTerminal(int(os.Stderr.Fd())), lock: &sync.Mutex{}}
}

// Enabled implements slog.Handler.
func (p *plain) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

// WithAttrs implements slog.Handler.
func (p *plain) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *p
	with.attrs = append(slices.Clone(p.attrs), attrs...)
	return &with
}

// WithGroup implements slog.Handler: nothing here is grouped.
func (p *plain) WithGroup(string) slog.Handler { return p }

// Handle implements slog.Handler.
func (p *plain) Handle(_ context.Context, r slog.Record) error {
	said := facts{}
	for _, a := range p.attrs {
		said.add(a)
	}
	r.Attrs(func(a slog.Attr) bool { said.add(a); return true })
	mark, text := phrase(r.Message, said)
	switch {
	case r.Level >= slog.LevelError:
		mark = wrong
	case r.Level >= slog.LevelWarn:
		mark = odd
	}
	if p.colours {
		mark = mark.coloured()
	}
	p.lock.Lock()
	defer p.lock.Unlock()
	_, err := fmt.Fprintf(p.out, "%s %s %s\n", r.Time.Format(time.TimeOnly), mark, strings.ReplaceAll(text, "\n", "; "))
	return err
}

// mark says at a glance what a line is.
type mark string

const (
	begun mark = "•"
	done  mark = "✓"
	odd   mark = "!"
	wrong mark = "✗"
)

func (m mark) coloured() mark {
	return map[mark]mark{done: "\x1b[32m" + done + "\x1b[0m", odd: "\x1b[33m" + odd + "\x1b[0m", wrong: "\x1b[31m" + wrong + "\x1b[0m", begun: begun}[m]
}

// facts are a record's attributes, in order.
type facts struct {
	keys   []string
	values map[string]string
}

func (f *facts) add(a slog.Attr) {
	if f.values == nil {
		f.values = map[string]string{}
	}
	f.keys = append(f.keys, a.Key)
	f.values[a.Key] = a.Value.Resolve().String()
}

// phrase is a line for people. What is not said often is said by its attributes.
func phrase(message string, f facts) (mark, string) {
	v := f.values
	switch message {
	case "row":
		return begun, fmt.Sprintf("[%s/%s] %s", v["n"], v["of"], v["dataplane"])
	case "dataplane forwards":
		return done, "it forwards, after " + v["took"]
	case "rollout":
		text := fmt.Sprintf("%s, %s, rollout %s of %s: %s", v["scenario"], v["dataplane"], v["counted"], v["wanted"], counted(v))
		if left := v["left"]; left != "" && left != "0s" {
			text += "; about " + v["left"] + " left"
		}
		if v["lost"] == "0" && v["slow"] == "0" {
			return done, text
		}
		return begun, text
	case "rollout is invalid and will be repeated":
		return odd, fmt.Sprintf("%s, %s: a rollout does not count and is repeated: %s; %s", v["scenario"], v["dataplane"], v["reasons"], counted(v))
	case "behaviour":
		text := fmt.Sprintf("[%s/%s] %s %s: %s", v["n"], v["of"], v["id"], v["family"], v["result"])
		if v["reason"] != "" {
			text += ": " + v["reason"]
		}
		switch v["result"] {
		case "pass":
			return done, text
		case "fail":
			return wrong, text
		}
		return begun, text
	}
	var parts []string
	for _, k := range f.keys {
		parts = append(parts, k+" "+v[k])
	}
	if len(parts) > 0 {
		message += " (" + strings.Join(parts, ", ") + ")"
	}
	return begun, message
}

// counted is what a rollout lost of how much.
func counted(v map[string]string) string {
	return fmt.Sprintf("lost %s of %s (the states explain %s), late %s", v["lost"], v["sent"], v["reconstructed"], v["slow"])
}
