package dbtest

import (
	"os"
	"sync"
	"testing"
)

// A new folder is never taken for that of a killed process, which other processes remove.
func TestNewFolderStays(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	var makers sync.WaitGroup
	for range 8 {
		makers.Go(func() {
			for range 100 {
				s := new(Server)
				if err := s.makeFolder(base, prefix); err != nil {
					t.Errorf("making a folder: %v", err)
					return
				}
				if _, err := os.Stat(s.folder); err != nil {
					t.Errorf("a locked folder: %v", err)
				}
				s.unlock() // as if this process were killed
			}
		})
	}
	makers.Wait()
}
