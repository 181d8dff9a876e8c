package lifecycle

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/plumbline/plumbline/fixtures/workload/server"
)

// programs hands on what the workload's programs say: on a lab from the files of
// their output when a life is over, elsewhere from the API's log while they run,
// as it goes with the pod.
type programs struct {
	client    kubernetes.Interface
	namespace string
	files     string // where a lab keeps them; empty: ask the API
}

// follow reads the log of a container that runs, to its end.
func (p programs) follow(ctx context.Context, pod string, said func(Event)) error {
	if p.files != "" {
		return nil
	}
	log, err := p.client.CoreV1().Pods(p.namespace).GetLogs(pod, &corev1.PodLogOptions{Follow: true}).Stream(ctx)
	if err != nil {
		return fmt.Errorf("follow the log of pod %s: %w", pod, err)
	}
	defer log.Close()
	if err := lines(log, pod, said); err != nil && ctx.Err() == nil {
		return fmt.Errorf("follow the log of pod %s: %w", pod, err)
	}
	return nil
}

// read reads what was written of a pod that is over.
func (p programs) read(pod string, said func(Event)) error {
	if p.files == "" {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(p.files, p.namespace+"_"+pod+"_echo.log"))
	if errors.Is(err, os.ErrNotExist) {
		return nil // it never ran
	}
	if err != nil {
		return fmt.Errorf("read the log of pod %s: %w", pod, err)
	}
	return lines(bytes.NewReader(text), pod, said)
}

// lines reads a program's log. What it says to people is passed over.
func lines(r io.Reader, pod string, said func(Event)) error {
	in := bufio.NewScanner(r)
	for in.Scan() {
		var l server.Line
		if json.Unmarshal(in.Bytes(), &l) == nil && l.Event != "" {
			said(Event{At: time.Duration(l.Mono), Pod: pod, Facet: facetProgram, Value: l.Event})
		}
	}
	return in.Err()
}
