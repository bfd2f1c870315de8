package verify_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce/verify"
)

// outcomes maps the words for verdicts, in testdata and in tables, to their errors.
var outcomes = map[string]error{
	"valid":     nil,
	"missing":   verify.ErrMissing,
	"repeated":  verify.ErrRepeated,
	"malformed": verify.ErrMalformed,
	"mismatch":  verify.ErrMismatch,
	"too old":   verify.ErrTooOld,
	"too new":   verify.ErrTooNew,
	"no url":    verify.ErrNoURL,
	"no keys":   verify.ErrNoKeys,
}

// savedCase is one request of testdata/<scheme>/cases.json.
type savedCase struct {
	Name    string            `json:"name"`
	Want    string            `json:"want"`
	Secrets []string          `json:"secrets"`
	Headers [][2]string       `json:"headers"`
	Body    string            `json:"body"`
	Now     float64           `json:"now"` // Unix seconds
	Method  string            `json:"method"`
	URL     string            `json:"url"`
	Query   string            `json:"query"`
	Params  map[string]string `json:"params"`
}

// TestSavedRequests verifies the requests of testdata, which other programs signed.
func TestSavedRequests(t *testing.T) {
	t.Parallel()
	eachSaved(t, func(t *testing.T, v *verify.Verifier, _ verify.Scheme, c savedCase) {
		wantVerdict(t, v.Verify(c.request(), mustKeys(t, v, c.Secrets...)), c.Want)
	})
}

// eachSaved runs check in a subtest for every request of testdata.
func eachSaved(t *testing.T, check func(t *testing.T, v *verify.Verifier, s verify.Scheme, c savedCase)) {
	t.Helper()
	files, err := filepath.Glob("testdata/*/cases.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no testdata: %v", err)
	}
	for _, file := range files {
		dir := filepath.Dir(file)
		var scheme verify.Scheme
		readJSON(t, filepath.Join(dir, "scheme.json"), &scheme)
		var cases []savedCase
		readJSON(t, file, &cases)
		for _, c := range cases {
			scheme.Values = c.Params
			v, scheme := mustCompile(t, scheme), scheme
			t.Run(filepath.Base(dir)+"/"+c.Name, func(t *testing.T) {
				t.Parallel()
				check(t, v, scheme, c)
			})
		}
	}
}

func (c *savedCase) request() *verify.Request {
	_, own, _ := strings.Cut(c.URL, "?")
	req := &verify.Request{
		Method: c.Method, URL: c.URL, RawQuery: cmp.Or(c.Query, own), Header: http.Header{}, Body: []byte(c.Body),
		Now: time.UnixMilli(int64(math.Round(c.Now * 1000))),
	}
	for _, h := range c.Headers {
		req.Header.Add(h[0], h[1])
	}
	return req
}

func readJSON(t *testing.T, file string, into any) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		t.Fatalf("%s: data after the document", file)
	}
}

// wantVerdict fails unless err is the verdict named by word.
func wantVerdict(t testing.TB, err error, word string) {
	t.Helper()
	want, known := outcomes[word]
	if !known {
		t.Fatalf("verdict %q is unknown", word)
	}
	if want == nil {
		if err != nil {
			t.Fatalf("got %v, want a valid signature", err)
		}
		return
	}
	var e *verify.Error
	if !errors.As(err, &e) || !errors.Is(err, want) {
		t.Fatalf("got %v, want an *Error that matches %q", err, want)
	}
}

func mustCompile(t testing.TB, s verify.Scheme) *verify.Verifier {
	t.Helper()
	v, err := verify.Compile(s)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func mustKeys(t testing.TB, v *verify.Verifier, secrets ...string) []verify.Key {
	t.Helper()
	var keys []verify.Key
	for _, s := range secrets {
		key, err := v.ParseKey(s)
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key)
	}
	return keys
}
