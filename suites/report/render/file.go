package render

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
)

// File writes a whole file or leaves what was there: on a full disk no half of one stays.
func File(path string, content []byte) error {
	unfinished := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+"."+rand.Text()[:8])
	err := os.WriteFile(unfinished, content, 0o644)
	if err == nil {
		err = os.Rename(unfinished, path)
	}
	if err == nil {
		return nil
	}
	if gone := os.Remove(unfinished); !errors.Is(gone, os.ErrNotExist) {
		err = errors.Join(err, gone)
	}
	return err
}
