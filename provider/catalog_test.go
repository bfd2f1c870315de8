package provider

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/internal/locate"
	"github.com/hookonce/hookonce/verify"
)

// TestCatalog checks the properties of every entry that the rest of the program relies on.
func TestCatalog(t *testing.T) {
	t.Parallel()
	for _, name := range Names() {
		t.Run(string(name), func(t *testing.T) {
			t.Parallel()
			spec, err := Lookup(name)
			if err != nil {
				t.Fatal(err)
			}
			checkFacts(t, spec)
			ids := map[string]bool{}
			for _, scheme := range spec.Schemes {
				if scheme.ID == "" || ids[scheme.ID] {
					t.Errorf("scheme id %q is empty or not unique", scheme.ID)
				}
				ids[scheme.ID] = true
				checkScheme(t, scheme)
			}
			if spec.Event != (EventRules{}) {
				if _, err := CompileRules(withID(spec.Event)); err != nil {
					t.Errorf("event rules: %v", err)
				}
			}
			for _, hint := range []string{spec.Hint.ID, spec.Hint.Type, spec.Hint.Time} {
				if _, err := locate.Parse(hint); hint != "" && err != nil {
					t.Errorf("hint: %v", err)
				}
			}
			if faults := spec.CheckEvent(spec.Event); faults != nil {
				t.Errorf("event rules: %v", faults)
			}
			if _, err := CompileHandshakes(spec.Handshakes); err != nil {
				t.Errorf("handshakes: %v", err)
			}
		})
	}
}

// ofAny reports whether a name stands for any sender of a kind.
func ofAny(name Name) bool { return slices.Contains([]Name{HMAC, Token, Basic, None}, name) }

// withID returns rules that compile: if the catalog does not know the id, the source sets it.
func withID(rules EventRules) EventRules {
	if rules.ID == "" {
		rules.ID = "header:X-Id"
		if rules.Batch != "" {
			rules.ID = "item:id"
		}
	}
	return rules
}

func checkFacts(t *testing.T, spec *Spec) {
	t.Helper()
	if u, err := url.Parse(spec.Docs); spec.Docs != "" && (err != nil || u.Scheme != "https" || u.Host == "") {
		t.Errorf("docs %q is not an https URL", spec.Docs)
	}
	if spec.MaxBody < 0 || spec.MaxBody > 0 && spec.MaxBody <= 1<<20 {
		t.Errorf("max_body %d is not above the default", spec.MaxBody)
	}
	if spec.Retry.Window < 0 || spec.Retry.Timeout < 0 || spec.Retry.Timeout > 0 && spec.Retry.Timeout < 100*time.Millisecond {
		t.Errorf("retry: %+v", spec.Retry)
	}
	signsTime := slices.ContainsFunc(spec.Schemes, func(s verify.Scheme) bool {
		return s.Timestamp != nil || s.Family == verify.FamilyJWT || s.Family == verify.FamilyStandardWebhooks
	})
	needed := signsTime && !ofAny(spec.Name) && spec.Name != StandardWebhooks && !strings.HasPrefix(spec.Retry.Note, "no retry")
	switch s := spec.Retry.Signed; {
	case s == "" && needed:
		t.Error("retry.signed is missing")
	case s != "" && s != SignedAnew && s != SignedOnce && s != SignedUndocumented, (s == "") != (spec.Retry.SignedSource == ""):
		t.Errorf("retry.signed is %q, known by %q", s, spec.Retry.SignedSource)
	}
	if spec.Retry.Signed == SignedOnce {
		for _, s := range spec.Schemes {
			if s.Timestamp != nil && s.Weak == "" && s.Timestamp.Tolerance <= spec.Retry.Window {
				t.Errorf("scheme %s refuses late attempts: its tolerance is %v, the retries take %v", s.ID, s.Timestamp.Tolerance, spec.Retry.Window)
			}
		}
	}
	if spec.Event.ID == "" && spec.Hint.ID == "" && spec.HintNote == "" && !ofAny(spec.Name) {
		t.Error("the entry has neither an event id nor a hint")
	}
	if len(spec.Notes) > 3 {
		t.Errorf("%d notes", len(spec.Notes))
	}
	for _, text := range append([]string{spec.Title, spec.Retry.Note, spec.HintNote}, spec.Notes...) {
		if text != strings.TrimSpace(text) {
			t.Errorf("%q has blanks at an end", text)
		}
	}
	if spec.Title == "" {
		t.Error("no title")
	}
	for at, value := range spec.Sample {
		if e, err := locate.Parse(at); err != nil || len(e.Refs()) != 1 || value == "" {
			t.Errorf("sample: %q has the value %q: %v", at, value, err)
		}
	}
	checkAck(t, spec)
}

// checkAck checks that a source's settings suffice to sign answers, and that the signature is in
// the headers.
func checkAck(t *testing.T, spec *Spec) {
	t.Helper()
	s := spec.AckSignature()
	if s == nil {
		return
	}
	v, err := verify.Compile(s.Scheme)
	if err != nil {
		t.Fatalf("ack: %v", err)
	}
	if !v.PublicKey() || s.Scheme.Header == "" || len(s.Scheme.Params) > 0 || s.Without == "" || s.Without != strings.TrimSpace(s.Without) {
		t.Errorf("ack: %+v", s)
	}
	if ts := s.Scheme.Timestamp; ts != nil && !strings.HasPrefix(ts.At, "header:") {
		t.Errorf("ack: the time stands at %s", ts.At)
	}
	for _, name := range s.Repeat {
		if !locate.ValidHeaderName(name) {
			t.Errorf("ack: %q is not a header name", name)
		}
	}
}

// checkScheme compiles a scheme with every value that its parameters may have.
func checkScheme(t *testing.T, scheme verify.Scheme) {
	t.Helper()
	if ts := scheme.Timestamp; ts != nil && ts.Tolerance != 0 && (ts.Tolerance < time.Minute || ts.Tolerance > 96*time.Hour) {
		t.Errorf("scheme %s: tolerance %s", scheme.ID, ts.Tolerance)
	}
	if k := scheme.Keys; k != nil && !regexp.MustCompile(`\\\.[a-z.()?\\]+$`).MatchString(k.Host) {
		t.Errorf("scheme %s: the host %q is not pinned", scheme.ID, k.Host)
	}
	base := map[string]string{}
	for _, p := range scheme.Params {
		if p.About == "" {
			t.Errorf("scheme %s: parameter %s has no description", scheme.ID, p.Name)
		}
		if p.Need == "" || p.Need == verify.NeedSignature {
			base[p.Name] = sampleValue(p.Name)
		}
	}
	compile := func(values map[string]string) {
		t.Helper()
		s := scheme
		s.Values = values
		if _, err := verify.Compile(s); err != nil {
			t.Errorf("scheme %s, values %v: %v", scheme.ID, values, err)
		}
	}
	compile(base)
	for _, p := range scheme.Params {
		for value := range p.Sets {
			values := maps.Clone(base)
			values[p.Name] = value
			compile(values)
		}
	}
}

// sampleValue returns a value for a parameter.
func sampleValue(param string) string {
	if param == "tenant" {
		return "11111111-2222-3333-4444-555555555555"
	}
	return "a-" + strings.ReplaceAll(param, "_", "-")
}

// TestNames checks that every file has a constant, and every constant a file.
func TestNames(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "names.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var constants []Name
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		name, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil || spec.Comment == nil {
			t.Errorf("%s has no value or no comment", spec.Names[0].Name)
		}
		constants = append(constants, Name(name))
		return false
	})
	slices.Sort(constants)
	if diff := cmp.Diff(constants, Names()); diff != "" {
		t.Errorf("constants and files (-constants +files):\n%s", diff)
	}
}

// TestKnownProviders checks facts of a few entries.
func TestKnownProviders(t *testing.T) {
	t.Parallel()
	type facts struct {
		Schemes     []string
		Event       EventRules
		Window, Ack time.Duration
		MaxBody     int64
	}
	for name, want := range map[Name]facts{
		Stripe: {[]string{"v1"}, EventRules{ID: "body:id", Type: "body:type", Time: "body:created"}, 72 * time.Hour, 0, 0},
		GitHub: {
			[]string{"sha256", "sha1"},
			EventRules{ID: "header:X-GitHub-Delivery", Type: "header:X-GitHub-Event"},
			0, 10 * time.Second, 25 << 20,
		},
		HMAC:  {},
		Token: {},
		Basic: {Schemes: []string{"basic"}},
		None:  {Schemes: []string{"none"}},
		Adyen: {Schemes: []string{"payments-item", "platform-body"}, Window: 720 * time.Hour, Ack: 10 * time.Second},
	} {
		spec, err := Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		got := facts{Window: spec.Retry.Window, Ack: spec.Retry.Timeout, MaxBody: spec.MaxBody}
		if want.Event != (EventRules{}) {
			got.Event = spec.Event
		}
		for _, s := range spec.Schemes {
			got.Schemes = append(got.Schemes, s.ID)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestScheme(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     Name
		id, want string
	}{
		{GitHub, "", "sha256"},
		{GitHub, "sha1", "sha1"},
		{GitHub, "sha256", "sha256"},
		{GitHub, "md5", ""},
		{Strava, "", ""},
		{Strava, "unsigned", "unsigned"},
		{EBay, "", ""},
		{None, "", "none"},
		{HMAC, "", ""},
	} {
		spec, err := Lookup(tt.name)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := spec.Scheme(tt.id); got.ID != tt.want || ok != (tt.want != "") {
			t.Errorf("%s, scheme %q: got %q, %t", tt.name, tt.id, got.ID, ok)
		}
	}
}

// TestWeakSchemes checks that a weak scheme, or one that signs nothing, is used only if a source
// names it.
func TestWeakSchemes(t *testing.T) {
	t.Parallel()
	for _, name := range Names() {
		spec, err := Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range spec.Schemes {
			broken := s.Family == verify.FamilyDigest || s.Family == verify.FamilyNone && name != None ||
				s.Algorithm == verify.AlgorithmMD5 || s.Algorithm == verify.AlgorithmRSASHA1 || s.Algorithm == verify.AlgorithmECDSASHA1
			if broken && s.Weak == "" {
				t.Errorf("%s, scheme %s is not marked as weak", name, s.ID)
			}
		}
	}
}

func TestLookupUnknown(t *testing.T) {
	t.Parallel()
	for name, hint := range map[Name]string{
		"strpe": "did you mean stripe", "Stripe": "did you mean stripe", "git": "did you mean gitea or github or gitlab",
		"github-app": "did you mean github", "standardwebhooks": "did you mean standard-webhooks", "sns": "did you mean aws-sns",
		"non": "did you mean none", "sesmetric": "hookonce providers", "": "hookonce providers", "?": "hookonce providers",
	} {
		_, err := Lookup(name)
		if !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), hint) {
			t.Errorf("%q: got %v, want a hint %q", name, err, hint)
		}
	}
}

// TestFolderRefuses checks that a faulty file gives no entry, and does not affect other files.
func TestFolderRefuses(t *testing.T) {
	t.Parallel()
	good := []byte(`{"name":"y"}`)
	for name, file := range map[string]string{
		"empty":                   ``,
		"not JSON":                `{"name":"x"`,
		"another name":            `{"name":"y"}`,
		"unknown field":           `{"name":"x","color":"x"}`,
		"unknown scheme field":    `{"name":"x","schemes":[{"id":"a","heaedr":"b"}]}`,
		"unknown time field":      `{"name":"x","schemes":[{"id":"a","timestamp":{"att":"b"}}]}`,
		"unknown key field":       `{"name":"x","schemes":[{"id":"a","keys":{"hosts":"b"}}]}`,
		"unknown retry field":     `{"name":"x","retry":{"windwo":"1h"}}`,
		"unknown event field":     `{"name":"x","event":{"ids":"body:id"}}`,
		"unknown ack field":       `{"name":"x","ack":{"signature":{"scheme":{},"repeats":["b"]}}}`,
		"number as duration":      `{"name":"x","retry":{"window":72}}`,
		"text as duration":        `{"name":"x","retry":{"window":"3 days"}}`,
		"data after the document": `{"name":"x"}{}`,
		"duration as scheme's":    `{"name":"x","schemes":[{"id":"a","timestamp":{"at":"b","tolerance":300}}]}`,
		"duration as key's":       `{"name":"x","schemes":[{"id":"a","keys":{"max_age":300}}]}`,
		"retry is not an object":  `{"name":"x","retry":"3 days"}`,
	} {
		f := &folder{files: fstest.MapFS{"catalog/x.json": {Data: []byte(file)}, "catalog/y.json": {Data: good}}}
		for range 2 {
			spec, err := f.spec("x")
			if err == nil || !strings.Contains(err.Error(), "catalog/x.json") || spec != nil {
				t.Errorf("%s: got %v, %v", name, spec, err)
			}
		}
		if spec, err := f.spec("y"); err != nil || spec.Name != "y" {
			t.Errorf("%s: got %v, %v of another file", name, spec, err)
		}
	}
}

func TestFolder(t *testing.T) {
	t.Parallel()
	f := &folder{files: fstest.MapFS{"catalog/x.json": {Data: []byte(
		`{"name":"x","schemes":[{"id":"a","family":"hmac","timestamp":{"at":"header:T","tolerance":"90s"},
		"keys":{"host":"h","format":"jwks","max_age":"2h"}}],"retry":{"window":"1h","timeout":"1500ms","note":"n"}}`)}}}
	if diff := cmp.Diff([]Name{"x"}, f.list()); diff != "" {
		t.Error(diff)
	}
	spec, err := f.spec("x")
	if err != nil {
		t.Fatal(err)
	}
	want := &Spec{
		Name: "x",
		Schemes: []verify.Scheme{{
			ID: "a", Family: "hmac", Timestamp: &verify.Timestamp{At: "header:T", Tolerance: 90 * time.Second},
			Keys: &verify.KeySource{Host: "h", Format: "jwks", MaxAge: 2 * time.Hour},
		}},
		Retry: Retry{Window: time.Hour, Timeout: 1500 * time.Millisecond, Note: "n"},
	}
	if diff := cmp.Diff(want, spec); diff != "" {
		t.Error(diff)
	}
	if again, err := f.spec("x"); again != spec || err != nil {
		t.Errorf("got %p, %v, want the same", again, err)
	}
}
