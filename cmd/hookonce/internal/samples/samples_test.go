package samples_test

import (
	"bytes"
	"encoding/json"
	"net/mail"
	"regexp"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/samples"
	"github.com/hookonce/hookonce/provider"
)

// TestFiles checks that every file can be read, that its names are unique, and that the bodies of two
// events of the same sample differ where their ids may stand outside the body.
func TestFiles(t *testing.T) {
	t.Parallel()
	for _, name := range samples.Providers() {
		spec, err := provider.Lookup(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		seen := map[string]bool{}
		for _, s := range samples.Of(name) {
			if seen[s.Name] {
				t.Errorf("%s has two samples %s", name, s.Name)
			}
			seen[s.Name] = true
			one, again, other := s.Body("e1"), s.Body("e1"), s.Body("e2")
			if !bytes.Equal(one, again) || bytes.Equal(one, other) && !strings.HasPrefix(spec.Event.ID, "body:") && !strings.HasPrefix(spec.Event.ID, "item:") {
				t.Errorf("%s %s: the bodies of one event are\n%s\nand\n%s\nthat of another one is\n%s", name, s.Name, one, again, other)
			}
			if !s.Form && !json.Valid(one) || bytes.Contains(one, []byte("{hex")) || bytes.Contains(one, []byte("{text")) {
				t.Errorf("%s %s is no JSON, or has a mark left: %s", name, s.Name, one)
			}
		}
		if len(seen) < 3 {
			t.Errorf("%s has %d samples, want 3", name, len(seen))
		}
	}
}

var address = regexp.MustCompile(`[\w.+-]+@[\w-]+(?:\.[\w-]+)+`)

// TestNobodyIsReal checks that every mail address is one of the reserved domains.
func TestNobodyIsReal(t *testing.T) {
	t.Parallel()
	reserved := regexp.MustCompile(`(?:^|\.)example\.(?:com|org|net)$`)
	for _, name := range samples.Providers() {
		for _, s := range samples.Of(name) {
			for _, text := range address.FindAllString(string(s.Document), -1) {
				if at, err := mail.ParseAddress(text); err != nil || !reserved.MatchString(at.Address[strings.Index(at.Address, "@")+1:]) {
					t.Errorf("%s %s: %s is not of example.com", name, s.Name, text)
				}
			}
		}
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	if s, ok := samples.Find(provider.WhatsApp, "statuses"); !ok || s.Type != "messages" {
		t.Errorf("found %+v", s)
	}
	if s, ok := samples.Find(provider.Mailgun, "opened"); !ok || s.Type != "opened" {
		t.Errorf("found %+v", s)
	}
	if s, ok := samples.Find(provider.Stripe, "no.such"); ok {
		t.Errorf("found %+v", s)
	}
	if all := samples.Of("no-such-provider"); all != nil {
		t.Errorf("found %+v", all)
	}
}
