// Package samples holds bodies of the most used providers, a few types of each, in the shapes that the
// providers document. Names, addresses and ids are invented.
package samples

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/big"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/hookonce/hookonce/provider"
)

// files has one file for each provider: an array of samples, the default one first.
//
//go:embed *.json
var files embed.FS

// Sample is the body of one event.
type Sample struct {
	Name string `json:"name"` // unique for its provider
	// Type is the event's type, if it is not Name.
	Type string `json:"type"`
	// Form says that the body is a form; its fields are the members of Document.
	Form bool `json:"form"`
	// Document may hold marks; see Body.
	Document json.RawMessage `json:"body"`
}

// Providers returns the providers that have samples, sorted.
func Providers() []provider.Name {
	entries, err := files.ReadDir(".")
	if err != nil {
		panic(err) // the files are embedded
	}
	var names []provider.Name
	for _, e := range entries {
		names = append(names, provider.Name(strings.TrimSuffix(e.Name(), ".json")))
	}
	return names
}

// Of returns the samples of a provider, the default one first; none if there are none.
func Of(name provider.Name) []Sample {
	raw, err := files.ReadFile(string(name) + ".json")
	if err != nil {
		return nil
	}
	var all []Sample
	if err := json.Unmarshal(raw, &all); err != nil {
		panic(fmt.Errorf("samples of %s: %w", name, err)) // a test reads them all
	}
	for i := range all {
		if all[i].Type == "" {
			all[i].Type = all[i].Name
		}
	}
	return all
}

// Find returns the sample of a provider with this name, or else the first one with this type.
func Find(name provider.Name, text string) (*Sample, bool) {
	all := Of(name)
	for _, same := range []func(Sample) bool{
		func(s Sample) bool { return s.Name == text },
		func(s Sample) bool { return s.Type == text },
	} {
		if i := slices.IndexFunc(all, same); i >= 0 {
			return &all[i], true
		}
	}
	return nil, false
}

// mark matches the places of values that differ for every event: {uuid}, and so many digits
// ({number:10}), hexadecimal digits ({hex:40}), letters and digits ({text:24}), in capitals ({upper:17}).
// As a whole string, {int:10} becomes a number.
var mark = regexp.MustCompile(`"\{int:(\d+)\}"|\{(uuid|number|hex|text|upper)(?::(\d+))?\}`)

// Body returns the body of the event with this id, as JSON or as a form. It replaces the marks by
// values that differ for every id; equal marks get equal values.
func (s *Sample) Body(id string) []byte {
	var doc bytes.Buffer
	if err := json.Compact(&doc, s.Document); err != nil {
		panic(fmt.Errorf("sample %s: %w", s.Name, err)) // a test reads them all
	}
	body := mark.ReplaceAllFunc(doc.Bytes(), func(found []byte) []byte {
		parts := mark.FindSubmatch(found)
		if len(parts[1]) > 0 {
			return []byte(value("number", string(parts[1]), id))
		}
		return []byte(value(string(parts[2]), string(parts[3]), id))
	})
	if !s.Form {
		return body
	}
	var fields map[string]string
	if err := json.Unmarshal(body, &fields); err != nil {
		panic(fmt.Errorf("sample %s: %w", s.Name, err)) // a test reads them all
	}
	form := url.Values{}
	for name, text := range fields {
		form.Set(name, text)
	}
	return []byte(form.Encode())
}

// Differs reports whether the bodies of two events differ by their marks.
func (s *Sample) Differs() bool { return mark.Match(s.Document) }

// value returns the value for a mark.
func value(kind, length, id string) string {
	sum := sha256.Sum256([]byte(kind + length + "\n" + id))
	hexadecimal := hex.EncodeToString(sum[:])
	n, _ := strconv.Atoi(length) // the mark has digits only
	text := hexadecimal
	switch kind {
	case "uuid":
		return fmt.Sprintf("%s-%s-4%s-a%s-%s", text[:8], text[8:12], text[13:16], text[17:20], text[20:32])
	case "number":
		text = "1" + new(big.Int).SetBytes(sum[:]).Text(10) // no zero at the beginning
	case "text":
		text = new(big.Int).SetBytes(sum[:]).Text(62)
	case "upper":
		text = strings.ToUpper(new(big.Int).SetBytes(sum[:]).Text(36))
	}
	for len(text) < n {
		text += hexadecimal
	}
	return text[:n]
}
