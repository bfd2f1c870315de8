package cli_test

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/samples"
	"github.com/hookonce/hookonce/hookadmin"
	"github.com/hookonce/hookonce/provider"
)

// sampleSources starts a gateway with a source for each provider that has samples.
func sampleSources(t *testing.T, dir string) (*gateway, map[provider.Name]sentSource) {
	t.Helper()
	sources, settings := make(map[provider.Name]sentSource), make(map[string]any)
	for _, name := range samples.Providers() {
		spec, err := provider.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		scheme, err := spec.ChooseScheme("")
		if err != nil {
			t.Fatal(err)
		}
		s := newSentSource(t, dir, spec, &scheme)
		sources[name], settings[s.name] = s, s.settings
	}
	text, err := json.Marshal(map[string]any{"database": "sqlite:" + filepath.Join(dir, "hookonce.db"), "sources": settings})
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "hookonce.yaml")
	writeFile(t, config, string(text))
	return startGateway(t, dir, "--config", config), sources
}

// TestSamples: a gateway takes two events of every sample. Each has the sample's type and an id of its
// own, and nothing but the fields of the sample.
func TestSamples(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	g, sources := sampleSources(t, dir)
	if len(sources) != 20 {
		t.Errorf("there are samples of %d providers, want 20", len(sources))
	}
	for name, source := range sources {
		for _, sample := range samples.Of(name) {
			args := append([]string{"send", g.public + "/webhooks/" + source.name, "--sample", sample.Name, "--times", "2"}, source.args...)
			stdout, stderr := runHere(t, 0, append(args, "--json")...)
			if !strings.Contains(stdout, `"unexpected": 0`) || stderr != "" {
				t.Errorf("%s %s: %s%s", name, sample.Name, stdout, stderr)
			}
			printed, _ := runHere(t, 0, append(args, "--print", "--json")...)
			var request struct {
				Body string `json:"body_base64"`
			}
			if err := json.NewDecoder(strings.NewReader(printed)).Decode(&request); err != nil {
				t.Fatal(err)
			}
			body, err := base64.StdEncoding.DecodeString(request.Body)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(shape(t, sample.Body("x"), sample.Form), shape(t, body, sample.Form)); diff != "" {
				t.Errorf("%s %s has other fields than its sample (-want +got):\n%s", name, sample.Name, diff)
			}
			events := listEvents(t, g, url.Values{"source": {source.name}, "type": {sample.Type}})
			if len(events) < 2 || len(events)%2 != 0 {
				t.Errorf("%s %s: %d events of type %q, want 2 for each such sample", name, sample.Name, len(events), sample.Type)
			}
		}
	}
}

// listEvents returns a page of events, of the admin API.
func listEvents(t *testing.T, g *gateway, query url.Values) []hookadmin.Event {
	t.Helper()
	var page hookadmin.EventPage
	unmarshal(t, g.api(t, "/api/v1/events?"+query.Encode()), &page)
	return page.Events
}

// shape returns a body with the kind of each value in its place.
func shape(t *testing.T, body []byte, form bool) any {
	t.Helper()
	if form {
		fields, err := url.ParseQuery(string(body))
		if err != nil {
			t.Fatal(err)
		}
		for name := range fields {
			fields[name] = nil
		}
		return fields
	}
	var doc any
	if err := json.Unmarshal(body, &doc); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	return kinds(doc)
}

func kinds(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name := range v {
			v[name] = kinds(v[name])
		}
		return v
	case []any:
		for i := range v {
			v[i] = kinds(v[i])
		}
		return v
	case string:
		return "a string"
	case float64:
		return "a number"
	case bool:
		return "a boolean"
	}
	return v
}

// TestSampleIsTheDefault: without --body, the body is the sample of --type, or the first one.
func TestSampleIsTheDefault(t *testing.T) {
	t.Parallel()
	stripe := []string{"send", "http://127.0.0.1:1/", "--provider", "stripe", "--secret", "whsec_test_secret", "--print"}
	for _, c := range []struct{ args, want, note string }{
		{"", `"type":"invoice.paid"}`, ""},
		{"--type customer.created", `"object":"customer"`, ""},
		{"--type made.up", `"type":"made.up"}`, `there is no sample of type "made.up"`},
		{"--sample customer.created --type made.up", `"object":"customer"`, ""},
	} {
		stdout, stderr := runHere(t, 0, append(stripe, strings.Fields(c.args)...)...)
		if !strings.Contains(stdout, c.want) || !strings.Contains(stderr, c.note) || c.note == "" && stderr != "" {
			t.Errorf("%q prints %s%s", c.args, stdout, stderr)
		}
	}
}

// TestSendStored: a stored event that is sent again is a duplicate of itself, for every provider with
// samples: its bytes, ids and signature are as the provider's. With another id it is a new event.
func TestSendStored(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	g, sources := sampleSources(t, dir)
	for name, source := range sources {
		hook := g.public + "/webhooks/" + source.name
		runHere(t, 0, append([]string{"send", hook}, source.args...)...)
		events := listEvents(t, g, url.Values{"source": {source.name}})
		if len(events) != 1 {
			t.Fatalf("%s: %d events", name, len(events))
		}
		stored := append([]string{"send", hook, "--from-event", source.name, events[0].EventID, "--admin-url", g.admin}, source.args...)
		runHere(t, 0, stored...)
		if n := g.count(t, "source="+source.name); n != 1 {
			t.Errorf("%s: %d events after the stored one was sent again", name, n)
		}
		if strings.HasPrefix(source.id(), "sha256:") {
			continue // the body is the id
		}
		runHere(t, 0, append(stored, "--id", "9009")...)
		if n := g.count(t, "source="+source.name); n != 2 {
			t.Errorf("%s: %d events after the stored one was sent with another id", name, n)
		}
	}
}

// id returns the rule for the event id.
func (s *sentSource) id() string {
	name, _ := s.settings["provider"].(provider.Name)
	spec, err := provider.Lookup(name)
	if err != nil {
		panic(err)
	}
	return spec.Event.ID
}
