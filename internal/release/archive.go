package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"cmp"
	"compress/gzip"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// entry is a file of an archive or a package.
type entry struct {
	name   string      // with slashes, and none in front
	mode   fs.FileMode // with fs.ModeDir for a folder
	data   []byte
	owner  int  // of the file, and its group; 0 is root
	config bool // a package leaves it alone if it was edited
}

// read returns the files below a folder as entries below name.
func read(folder, name string) ([]entry, error) {
	var entries []entry
	err := filepath.WalkDir(folder, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		below, err := filepath.Rel(folder, file)
		mode := fs.FileMode(0o644) // independent of the umask
		if info.Mode()&0o100 != 0 {
			mode = 0o755
		}
		entries = append(entries, entry{name: path.Join(name, filepath.ToSlash(below)), mode: mode, data: data})
		return err
	})
	return entries, err
}

// withFolders adds the folders of the entries, and sorts them all: a folder is before its files.
func withFolders(entries []entry) []entry {
	all := slices.Clone(entries)
	seen := map[string]bool{".": true}
	for _, e := range entries {
		if e.mode.IsDir() {
			seen[e.name] = true
		}
	}
	for _, e := range entries {
		for folder := path.Dir(e.name); !seen[folder]; folder = path.Dir(folder) {
			seen[folder] = true
			all = append(all, entry{name: folder, mode: fs.ModeDir | 0o755})
		}
	}
	slices.SortFunc(all, func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	return all
}

// tarred returns a tar archive whose bytes depend on the entries and the date alone. Its names begin with prefix.
func tarred(entries []entry, prefix string, date time.Time) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		h := &tar.Header{
			Typeflag: tar.TypeReg, Name: prefix + e.name, Size: int64(len(e.data)), Mode: int64(e.mode.Perm()),
			Uid: e.owner, Gid: e.owner, ModTime: date, Format: tar.FormatGNU,
		}
		if e.mode.IsDir() {
			h.Typeflag, h.Name = tar.TypeDir, h.Name+"/"
		}
		if e.owner == 0 {
			h.Uname, h.Gname = "root", "root"
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, fmt.Errorf("%s: %w", e.name, err)
		}
		if _, err := w.Write(e.data); err != nil {
			return nil, fmt.Errorf("%s: %w", e.name, err)
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

// gzipped compresses data. The result has neither a name nor a time. The best level takes minutes for the program, and saves
// less than a percent; Debian demands it for pages.
func gzipped(data []byte, level int) ([]byte, error) {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, level)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	err = w.Close()
	return out.Bytes(), err
}

func tarGzipped(entries []entry, prefix string, date time.Time) ([]byte, error) {
	data, err := tarred(entries, prefix, date)
	if err != nil {
		return nil, err
	}
	return gzipped(data, gzip.DefaultCompression)
}

func zipped(entries []entry, date time.Time) ([]byte, error) {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, e := range entries {
		if e.mode.IsDir() {
			continue
		}
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: date}
		h.SetMode(e.mode)
		file, err := w.CreateHeader(h)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.name, err)
		}
		if _, err := file.Write(e.data); err != nil {
			return nil, fmt.Errorf("%s: %w", e.name, err)
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

// same fails unless two folders have the same files, byte by byte.
func same(one, other string) error {
	var lists [2][]entry
	for i, folder := range []string{one, other} {
		var err error
		if lists[i], err = read(folder, ""); err != nil {
			return err
		}
	}
	var different []string
	for _, a := range lists[0] {
		at := slices.IndexFunc(lists[1], func(b entry) bool { return b.name == a.name })
		if at < 0 || lists[1][at].mode != a.mode || !bytes.Equal(lists[1][at].data, a.data) {
			different = append(different, a.name)
		}
	}
	if len(different) > 0 || len(lists[0]) != len(lists[1]) {
		return fmt.Errorf("two builds differ (%d and %d files): %s", len(lists[0]), len(lists[1]), strings.Join(different, ", "))
	}
	return nil
}
