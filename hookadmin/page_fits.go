package hookadmin

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/headers"
	"github.com/hookonce/hookonce/provider"
)

// fit is a location whose name looks like that of an event id, with its value in the request.
type fit struct{ Location, Value text }

// documentedFit is the location of the event id in the catalog's entry for a provider. The zero value
// stands for none.
type documentedFit struct {
	Provider  string
	Location  text
	Batch     text // the array that Location refers to; empty without one
	Confirmed bool
	Fits      bool
	Value     text // of the first event; empty unless Fits
}

// specs returns the catalog's entry for the provider of each source.
func (h *handler) specs() map[string]*provider.Spec {
	all := make(map[string]*provider.Spec)
	for _, s := range h.engine.Operator().Sources() {
		all[s.Name] = specOf(s.Provider)
	}
	return all
}

// documentedFor reads a quarantined request by the rules of the catalog alone: those in the settings
// could not read it when it came. spec is nil for an unknown source.
func documentedFor(spec *provider.Spec, q *driver.QuarantinedRequest, header http.Header) documentedFit {
	if spec == nil || spec.Event.ID == "" && spec.Hint.ID == "" {
		return documentedFit{}
	}
	rules := spec.Event.Or(spec.Hint)
	out := documentedFit{
		Provider: spec.Title, Location: newText(rules.ID, 120), Batch: newText(rules.Batch, 80), Confirmed: spec.Event.ID != "",
	}
	extractor, err := provider.CompileRules(rules)
	if err != nil {
		return documentedFit{} // a hint may lack the rest of its rules
	}
	if events, _ := extractor.ExtractStored(provider.Part(q.Part), header, q.Body, headers.Secret); len(events) > 0 {
		out.Fits, out.Value = true, newText(events[0].ID, 60)
	}
	return out
}

const (
	maxFits     = 5
	maxFitBody  = 256 << 10 // bytes of a body that is looked through
	maxFitDepth = 6
)

// idNames are the names that senders give to the id of an event, without case and separators. The
// best come first.
var idNames = []string{
	"eventid", "id", "webhookid", "deliveryid", "messageid", "notificationid", "uuid", "guid", "requestid", "transactionid", "reference", "key",
}

// idLocations returns locations of the request that hold something like the id of an event, best
// first, each with its value.
func idLocations(body []byte, headers map[string][]string) [][2]string {
	type candidate struct {
		rank, depth     int
		location, value string
	}
	var all []candidate
	body = unmarked(body)
	if len(body) <= maxFitBody && json.Valid(body) {
		dec := json.NewDecoder(bytes.NewReader(body))
		dec.UseNumber()
		var v any
		if dec.Decode(&v) == nil {
			walkJSON(v, nil, func(path []string, value string) {
				if rank := slices.Index(idNames, plainName(path[len(path)-1])); rank >= 0 {
					all = append(all, candidate{rank, len(path), "body:" + strings.Join(path, "."), value})
				}
			})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		plain := strings.TrimPrefix(plainName(name), "x")
		rank := slices.IndexFunc(idNames, func(id string) bool { return id != "key" && strings.HasSuffix(plain, id) })
		if rank >= 0 && len(headers[name]) == 1 {
			all = append(all, candidate{rank, 1, "header:" + name, headers[name][0]})
		}
	}
	slices.SortStableFunc(all, func(a, b candidate) int {
		return cmp.Or(a.depth-b.depth, a.rank-b.rank, cmp.Compare(a.location, b.location))
	})
	var fits [][2]string
	for _, c := range all[:min(len(all), maxFits)] {
		fits = append(fits, [2]string{c.location, c.value})
	}
	return fits
}

// plainName returns a name in lower case, without separators.
func plainName(name string) string {
	return strings.NewReplacer("-", "", "_", "", ".", "", " ", "").Replace(strings.ToLower(name))
}

// walkJSON calls found for each string and number of an object in v, with its path. Keys that a
// location would have to escape are left out.
func walkJSON(v any, path []string, found func(path []string, value string)) {
	object, ok := v.(map[string]any)
	if !ok || len(path) > maxFitDepth {
		return
	}
	for key, value := range object {
		if key == "" || strings.ContainsAny(key, `.+|?[]\ `) {
			continue
		}
		at := append(slices.Clone(path), key)
		switch value := value.(type) {
		case string:
			if value != "" {
				found(at, value)
			}
		case json.Number:
			found(at, value.String())
		default:
			walkJSON(value, at, found)
		}
	}
}
