package conformance

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"github.com/plumbline/plumbline/suites/report/conformance"
)

// runLog is the log of the run beside its report. What it is given before there is
// such a place it keeps until then.
type runLog struct {
	mu     sync.Mutex // guards the rest
	before bytes.Buffer
	file   *os.File
}

func (l *runLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return l.before.Write(b)
	}
	return l.file.Write(b)
}

// open makes the directory and the log in it, which stays open until close.
func (l *runLog) open(dir string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := os.MkdirAll(dir, 0o755)
	if err == nil {
		l.file, err = os.Create(filepath.Join(dir, conformance.LogFile))
	}
	if err == nil {
		_, err = l.before.WriteTo(l.file)
	}
	if err != nil {
		return fmt.Errorf("write the log of the run: %w", err)
	}
	return nil
}

// close ends the log; what is said later goes nowhere.
func (l *runLog) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	file := l.file
	l.file = nil
	if file == nil {
		return nil
	}
	return file.Close()
}

// Logger writes to standard error and to the log of the run.
func (o *Options) Logger() *slog.Logger {
	level := slog.LevelInfo
	if o.Verbose {
		level = slog.LevelDebug
	}
	options := &slog.HandlerOptions{Level: level}
	screen := o.Screen
	if screen == nil {
		screen = slog.NewTextHandler(os.Stderr, options)
	}
	return slog.New(slog.NewMultiHandler(screen, slog.NewTextHandler(&o.said, options)))
}
