package provider

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hookonce/hookonce/internal/spelling"
	"github.com/hookonce/hookonce/verify"
)

//go:embed catalog/*.json
var files embed.FS

// catalog decodes the whole catalog, once.
var catalog = sync.OnceValues(func() (map[Name]*Spec, error) { return load(files) })

// ErrUnknown is matched by Lookup's error for a name that is not in the catalog.
var ErrUnknown = errors.New("unknown provider")

// Lookup returns what is known of a provider. The error for an unknown one
// matches ErrUnknown and names those that are like it, or all.
func Lookup(name Name) (*Spec, error) {
	specs, err := catalog()
	if err != nil {
		return nil, err
	}
	if spec, ok := specs[name]; ok {
		return spec, nil
	}
	near := similar(name, sortedNames(specs))
	if len(near) > 0 {
		return nil, fmt.Errorf("%w %q: did you mean %s?", ErrUnknown, name, strings.Join(near, " or "))
	}
	var all []string
	for _, n := range sortedNames(specs) {
		all = append(all, string(n))
	}
	return nil, fmt.Errorf("%w %q: use one of %s; any HMAC sender works as %s", ErrUnknown, name, strings.Join(all, ", "), HMAC)
}

// Names returns the names of all providers, sorted.
func Names() []Name {
	specs, err := catalog()
	if err != nil {
		// The files are part of the program, and a test decodes them all.
		panic(err)
	}
	return sortedNames(specs)
}

func sortedNames(specs map[Name]*Spec) []Name { return slices.Sorted(maps.Keys(specs)) }

// similar returns up to three of names that name may be a slip for.
func similar(name Name, names []Name) []string {
	var near []string
	want := strings.ToLower(string(name))
	for _, n := range names {
		long := min(len(want), len(n)) >= 3
		contains := strings.Contains(string(n), want) || strings.Contains(want, string(n))
		if long && contains || spelling.Edits(want, string(n)) <= len(want)/4+1 {
			near = append(near, string(n))
		}
	}
	return near[:min(len(near), 3)]
}

// load decodes one file for each provider.
func load(fsys fs.FS) (map[Name]*Spec, error) {
	paths, err := fs.Glob(fsys, "catalog/*.json")
	if err != nil {
		return nil, err
	}
	specs := make(map[Name]*Spec, len(paths))
	for _, p := range paths {
		data, err := fs.ReadFile(fsys, p)
		if err != nil {
			return nil, err
		}
		spec, err := decode(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p, err)
		}
		if file := strings.TrimSuffix(path.Base(p), ".json"); string(spec.Name) != file {
			return nil, fmt.Errorf("%s: the name within is %q", p, spec.Name)
		}
		specs[spec.Name] = spec
	}
	return specs, nil
}

// A file has the shape of Spec, but for durations, which are strings. The
// outer fields here shadow the embedded ones of the same name.
type (
	specFile struct {
		Spec
		Schemes []schemeFile `json:"schemes"`
		Retry   retryFile    `json:"retry"`
	}
	schemeFile struct {
		verify.Scheme
		Timestamp *timestampFile `json:"timestamp"`
	}
	timestampFile struct {
		verify.Timestamp
		Tolerance duration `json:"tolerance"`
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
		return nil, errors.New("something follows the document")
	}
	spec := f.Spec
	for _, sf := range f.Schemes {
		scheme := sf.Scheme
		if sf.Timestamp != nil {
			t := sf.Timestamp.Timestamp
			t.Tolerance = time.Duration(sf.Timestamp.Tolerance)
			scheme.Timestamp = &t
		}
		spec.Schemes = append(spec.Schemes, scheme)
	}
	spec.Retry = f.Retry.Retry
	spec.Retry.Window, spec.Retry.Timeout = time.Duration(f.Retry.Window), time.Duration(f.Retry.Timeout)
	return &spec, nil
}
