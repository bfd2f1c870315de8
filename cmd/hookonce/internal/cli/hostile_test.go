package cli_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce/hookadmin"
	"github.com/hookonce/hookonce/internal/test/rig"
)

// fill sets every text in v to text, and gives every list and map one element.
func fill(v reflect.Value, text string) {
	if at, is := v.Addr().Interface().(*hookadmin.Time); is {
		*at = hookadmin.Time(time.Unix(1_800_000_000, 0))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), text)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte(text))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), text)
	case reflect.Map:
		element := reflect.New(v.Type().Elem()).Elem()
		fill(element, text)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf(text).Convert(v.Type().Key()), element)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				fill(v.Field(i), text)
			}
		}
	}
}

// No command shows a control or format character, or a separator, of a gateway that answers nothing else.
func TestNoCommandShowsHiddenCharacters(t *testing.T) {
	t.Parallel()
	text, id := strings.Join(rig.HiddenTexts(), ""), strings.Repeat("0f", 32)
	answers := map[string]any{
		"/events":                      new(hookadmin.EventPage),
		"/events/lab/":                 new(hookadmin.EventDetail),
		"/events/lab/x/replay":         new(hookadmin.Replayed),
		"/events/lab/x/redact":         new(hookadmin.Redacted),
		"/dead-letters":                new(hookadmin.DeadLetterPage),
		"/quarantine":                  new(hookadmin.QuarantinePage),
		"/quarantine/":                 new(hookadmin.QuarantinedRequest),
		"/quarantine/" + id + "/retry": new(hookadmin.QuarantineRetried),
		"/refused":                     new(hookadmin.RefusedPage),
		"/refused/groups":              new(hookadmin.RefusedGroupPage),
		"/search":                      new(hookadmin.SearchPage),
		"/stats":                       new(hookadmin.Stats),
		"/gateway":                     new(hookadmin.Gateway),
		"/warnings":                    new(hookadmin.WarningPage),
		"/sources":                     new(hookadmin.SourcePage),
		"/destinations":                new(hookadmin.DestinationPage),
		"/destinations/x/pause":        new(hookadmin.DestinationPaused),
		"/destinations/x/resume":       new(hookadmin.DestinationPaused),
		"/destinations/x/retry":        new(hookadmin.DestinationRetried),
		"/jobs":                        new(hookadmin.Job),
		"/jobs/":                       new(hookadmin.Job),
		"/dead-letters/undo":           new(hookadmin.Undone),
		"/messages":                    new(hookadmin.MessagePage),
	}
	mux := http.NewServeMux()
	for path, answer := range answers {
		fill(reflect.ValueOf(answer).Elem(), text)
		raw, err := json.Marshal(answer)
		if err != nil {
			t.Fatal(err)
		}
		mux.HandleFunc("/api/v1"+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(raw)
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		raw, _ := json.Marshal(map[string]any{"title": text, "detail": text, "status": 404, "instance": text, "reason": text})
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write(raw)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	dir := t.TempDir()
	for _, command := range []string{
		"events list", "events show lab x", "events show none " + text, "events replay lab x", "events redact lab x --yes", "dlq list",
		"dlq discard --source lab --id x --yes", "dlq undo x", "dlq replay --source lab --yes",
		"events show x", "events replay lab x --as-new",
		"events replay lab x --reroute", "events replay --source lab --since 1h --plan", "events replay --source lab --since 1h --reroute --plan",
		"events replay --source lab --since 1h --to billing --yes", "events list --destination x", "stats", "refused list --group", "refused show x",
		"destinations resume x", "quarantine list", "quarantine show " + id, "quarantine retry " + id, "refused list",
		"sources list", "doctor", "destinations list", "destinations pause x", "destinations retry x", "events list --source \u202e",
	} {
		for _, form := range []string{"", " --json"} {
			args := strings.Split(command+form, " ")
			stdout, stderr, code := run(t, dir, append(args, "--admin-url", server.URL)...)
			if c, found := rig.HiddenIn(stdout + stderr); found || code == 2 {
				t.Errorf("%.40s%s: %d, %U in %.2000q", command, form, code, c, stdout+stderr)
			}
		}
	}
}
