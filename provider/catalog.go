package provider

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hookonce/hookonce/internal/say"
	"github.com/hookonce/hookonce/verify"
)

//go:embed catalog/*.json
var files embed.FS

var catalog = &folder{files: files}

// ErrUnknown means that a name is not in the catalog.
var ErrUnknown = errors.New("unknown provider")

// Lookup returns the catalog's entry for a provider. All callers share the Spec: do not change it.
// The error for an unknown name matches ErrUnknown, and suggests similar names.
func Lookup(name Name) (*Spec, error) {
	names := catalog.list()
	if _, ok := slices.BinarySearch(names, name); ok {
		return catalog.spec(name)
	}
	if near := similar(name, names); len(near) > 0 {
		return nil, fmt.Errorf("%w %q: did you mean %s?", ErrUnknown, name, strings.Join(near, " or "))
	}
	return nil, fmt.Errorf("%w %q: hookonce providers lists the %d that are known; any HMAC sender works as %s, and one that sends a fixed secret as %s or %s",
		ErrUnknown, name, len(names), HMAC, Token, Basic)
}

// Names returns the names of all providers, sorted.
func Names() []Name { return slices.Clone(catalog.list()) }

// similar returns up to three names that name may be a misspelling of, the likeliest first.
func similar(name Name, names []Name) []string {
	type match struct {
		name  string
		edits int
	}
	var near []match
	want := strings.ToLower(string(name))
	for _, n := range names {
		long := min(len(want), len(n)) >= 3
		edits := say.Edits(want, string(n))
		switch {
		case long && (strings.HasPrefix(string(n), want) || strings.HasPrefix(want, string(n))):
			near = append(near, match{string(n), 0})
		case long && strings.Contains(string(n), want), edits <= len(want)/4+1 && edits < len(want):
			near = append(near, match{string(n), edits})
		}
	}
	slices.SortStableFunc(near, func(a, b match) int { return cmp.Compare(a.edits, b.edits) })
	var found []string
	for _, m := range near[:min(len(near), 3)] {
		found = append(found, m.name)
	}
	return found
}

// folder is a catalog with one file per provider. A file is decoded on first use, because most
// programs need few of them.
type folder struct {
	files fs.FS

	mu    sync.Mutex
	names []Name // sorted; nil until first used
	specs map[Name]*Spec
}

// list returns the names of the files, sorted. Callers share the slice.
func (f *folder) list() []Name {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.names == nil {
		// The only possible error is a malformed pattern.
		paths, _ := fs.Glob(f.files, "catalog/*.json")
		f.names = make([]Name, 0, len(paths))
		for _, p := range paths {
			f.names = append(f.names, Name(strings.TrimSuffix(path.Base(p), ".json")))
		}
		slices.Sort(f.names)
	}
	return f.names
}

func (f *folder) spec(name Name) (*Spec, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if spec, ok := f.specs[name]; ok {
		return spec, nil
	}
	file := "catalog/" + string(name) + ".json"
	data, err := fs.ReadFile(f.files, file)
	if err != nil {
		return nil, err
	}
	spec, err := decode(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if spec.Name != name {
		return nil, fmt.Errorf("%s: it holds the name %q", file, spec.Name)
	}
	if f.specs == nil {
		f.specs = map[Name]*Spec{}
	}
	f.specs[name] = spec
	return spec, nil
}

// A file has the form of Spec, except that durations are strings. The outer fields here shadow the
// embedded fields of the same name.
type (
	specFile struct {
		Spec
		Schemes []schemeFile `json:"schemes"`
		Retry   retryFile    `json:"retry"`
	}
	schemeFile struct {
		verify.Scheme
		Timestamp *timestampFile `json:"timestamp"`
		Keys      *keysFile      `json:"keys"`
	}
	timestampFile struct {
		verify.Timestamp
		Tolerance duration `json:"tolerance"`
	}
	keysFile struct {
		verify.KeySource
		MaxAge duration `json:"max_age"`
	}
	retryFile struct {
		Retry
		Window  duration `json:"window"`
		Timeout duration `json:"timeout"`
	}
	duration time.Duration
)

func (d *duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = duration(parsed)
	return err
}

func decode(data []byte) (*Spec, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	var f specFile
	if err := dec.Decode(&f); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("data after the document")
	}
	spec := f.Spec
	for _, sf := range f.Schemes {
		spec.Schemes = append(spec.Schemes, sf.scheme())
	}
	spec.Retry = f.Retry.Retry
	spec.Retry.Window, spec.Retry.Timeout = time.Duration(f.Retry.Window), time.Duration(f.Retry.Timeout)
	return &spec, nil
}

func (f *schemeFile) scheme() verify.Scheme {
	scheme := f.Scheme
	if f.Timestamp != nil {
		t := f.Timestamp.Timestamp
		t.Tolerance = time.Duration(f.Timestamp.Tolerance)
		scheme.Timestamp = &t
	}
	if f.Keys != nil {
		k := f.Keys.KeySource
		k.MaxAge = time.Duration(f.Keys.MaxAge)
		scheme.Keys = &k
	}
	return scheme
}
