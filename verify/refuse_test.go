package verify_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce/verify"
)

// TestPairs changes a signature header in the format kv in ways that no sender uses.
func TestPairs(t *testing.T) {
	t.Parallel()
	s := shapes()[1]
	v := mustCompile(t, s.scheme)
	keys := mustKeys(t, v, s.secret)
	header := signedRequest(t, v, keys[0], "{}").Header.Get("Stripe-Signature")
	clock, sig, _ := strings.Cut(header, ",v1=")
	wrong := strings.Repeat("0", 64)
	for _, c := range []struct{ name, value, want string }{
		{"as signed", clock + ",v1=" + sig, "valid"},
		{"a wrong one first", clock + ",v1=" + wrong + ",v1=" + sig, "valid"},
		{"a wrong one last", clock + ",v1=" + sig + ",v1=" + wrong, "valid"},
		{"an undecodable one first", clock + ",v1=zz,v1=" + sig, "valid"},
		{"15 wrong ones first", clock + strings.Repeat(",v1="+wrong, 15) + ",v1=" + sig, "valid"},
		{"16 wrong ones first", clock + strings.Repeat(",v1="+wrong, 16) + ",v1=" + sig, "malformed"},
		{"10,000 signatures", clock + strings.Repeat(",v1="+sig, 10_000), "malformed"},
		{"10,000 other pairs", clock + ",v1=" + sig + strings.Repeat(",a=b", 10_000), "malformed"},
		{"only wrong ones", clock + ",v1=" + wrong + ",v1=" + wrong, "mismatch"},
		{"only v0", clock + ",v0=" + sig, "missing"},
		{"only v1a", clock + ",v1a=" + sig, "missing"},
		{"key in upper case", clock + ",V1=" + sig, "missing"},
		{"empty signature", clock + ",v1=", "malformed"},
		{"no time", "v1=" + sig, "missing"},
		{"empty time", "t=,v1=" + sig, "missing"},
		{"time twice", clock + "," + clock + ",v1=" + sig, "repeated"},
		{"another time after it", clock + ",v1=" + sig + ",t=1", "repeated"},
		{"an empty time before", "t=," + clock + ",v1=" + sig, "repeated"},
		{"another time", "t=1760000001,v1=" + sig, "mismatch"},
		{"blank after the comma", clock + ", v1=" + sig, "valid"},
		{"blank before the comma", clock + " ,v1=" + sig, "valid"},
		{"blanks and tabs around each comma", clock + " \t, \tv0=" + wrong + " ,  v1=" + sig, "valid"},
		{"a wrong one after a blank", clock + ", v1=" + wrong, "mismatch"},
		{"time twice, after a blank", clock + ", " + clock + ",v1=" + sig, "repeated"},
		{"another time before a blank", "t=1760000001 , v1=" + sig, "mismatch"},
		{"only a blank between commas", clock + ", ,v1=" + sig, "valid"},
		{"a line break after the comma", clock + ",\nv1=" + sig, "malformed"},
		{"blank after the equals sign", clock + ",v1= " + sig, "malformed"},
		{"blank in the signature", clock + ",v1=" + sig[:9] + " " + sig[9:], "malformed"},
		{"blank before the equals sign", clock + ",v1 =" + sig, "malformed"},
		{"tab in the time", "t=\t1760000000,v1=" + sig, "malformed"},
		{"no equals sign", clock + ",v1=" + sig + ",x", "malformed"},
		{"no key", clock + ",v1=" + sig + ",=x", "malformed"},
		{"trailing comma", clock + ",v1=" + sig + ",", "valid"},
		{"leading comma", "," + clock + ",v1=" + sig, "valid"},
		{"62 empty elements", clock + strings.Repeat(",", 63) + "v1=" + sig, "valid"},
		{"63 empty elements", clock + strings.Repeat(",", 64) + "v1=" + sig, "malformed"},
		{"10,000 empty elements", clock + ",v1=" + sig + strings.Repeat(" ,", 10_000), "malformed"},
		{"semicolon", clock + ";v1=" + sig, "missing"},
		{"only commas", ",,,", "missing"},
		{"plain signature", sig, "malformed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			req := signedRequest(t, v, keys[0], "{}")
			req.Header.Set("Stripe-Signature", c.value)
			wantVerdict(t, v.Verify(req, keys), c.want)
		})
	}
}

// TestTimeInOtherPairs reads the time from another header than the signature's.
func TestTimeInOtherPairs(t *testing.T) {
	t.Parallel()
	scheme := shapes()[0].scheme
	scheme.Content = "{timestamp}.{body}"
	scheme.Timestamp = &verify.Timestamp{At: "header:X-Meta#ts"}
	v := mustCompile(t, scheme)
	scheme.Content, scheme.Timestamp = "1760000000.{body}", nil
	signer := mustCompile(t, scheme)
	for value, want := range map[string]string{
		"ts=1760000000":               "valid",
		"a=b,ts=1760000000,c":         "malformed",
		"a=b,ts=1760000000,c=":        "valid",
		"ts=1760000001":               "mismatch",
		"ts=1760000000,ts=1760000000": "repeated",
		"ts=":                         "missing",
		"t=1760000000":                "missing",
		"ts=1760000000, a=b":          "valid",
		"":                            "missing",
	} {
		req := signedRequest(t, signer, mustKeys(t, signer, hmacSecret)[0], "{}")
		req.Header.Set("X-Meta", value)
		t.Run(value, func(t *testing.T) {
			t.Parallel()
			wantVerdict(t, v.Verify(req, mustKeys(t, v, hmacSecret)), want)
		})
	}
}

// TestPairsOfIDs changes a field in the format pairs.
func TestPairsOfIDs(t *testing.T) {
	t.Parallel()
	v := mustCompile(t, verify.Scheme{
		Family: "hmac", At: "form:sig", Format: "pairs", SignatureKeys: []string{"id"}, Content: "{form:payload}", Partial: "other fields",
		Params: []verify.Param{{Name: "id", About: "our id"}}, Values: map[string]string{"id": "ours"},
	})
	keys := mustKeys(t, v, hmacSecret)
	form, err := url.ParseQuery(string(signedRequest(t, v, keys[0], "payload=x").Body))
	if err != nil {
		t.Fatal(err)
	}
	pair, wrong := form.Get("sig"), "ours|"+strings.Repeat("0", 64)
	for value, want := range map[string]string{
		pair: "valid", " " + pair + "\t": "valid", "other|00 & " + pair: "valid", pair + " &\tother|00": "valid", "&" + pair + "& &": "valid",
		wrong + "&" + pair: "valid", wrong: "mismatch", "other|00": "missing", strings.Replace(pair, "ours", "ours ", 1): "missing",
		strings.Replace(pair, "|", "| ", 1): "malformed", pair + "&x": "malformed", strings.Replace(pair, "|", "=", 1): "malformed",
		strings.Repeat("&", 63) + pair: "valid", strings.Repeat("&", 64) + pair: "malformed",
	} {
		form.Set("sig", value)
		t.Run(value, func(t *testing.T) {
			wantVerdict(t, v.Verify(&verify.Request{Header: http.Header{}, Body: []byte(form.Encode()), Now: receivedAt}, keys), want)
		})
	}
}

// TestSeparatorInSignedHeader checks that a signed header cannot contain the character between it
// and the body, on either side: otherwise bytes could move from one to the other under the same
// signature.
func TestSeparatorInSignedHeader(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ content, id, body, movedID, movedBody string }{
		{"{header:X-Id}.{body}", "a", "b.c", "a.b", "c"},
		{"{body}.{header:X-Id}", "c", "a.b", "b.c", "a"},
		{"{header:X-Id}:v0.{body}", "a", "b:v0.c", "a:v0.b", "c"},
		{"{body}:v0.{header:X-Id}", "c", "a:v0.b", "b:v0.c", "a"},
	} {
		v := mustCompile(t, verify.Scheme{Family: verify.FamilyHMAC, Header: "X-Sig", Content: c.content})
		keys := mustKeys(t, v, hmacSecret)
		req := signedRequest(t, v, keys[0], "")
		req.Header.Set("X-Id", c.id)
		req.Body = []byte(c.body)
		if err := v.Sign(req, keys[0]); err != nil {
			t.Fatal(err)
		}
		wantVerdict(t, v.Verify(req, keys), "valid")
		req.Header.Set("X-Id", c.movedID)
		req.Body = []byte(c.movedBody)
		wantVerdict(t, v.Verify(req, keys), "malformed")
	}
}

// TestTimestampForms signs requests correctly, with times in another form than the scheme declares.
func TestTimestampForms(t *testing.T) {
	t.Parallel()
	unix, ms := strconv.FormatInt(receivedAt.Unix(), 10), strconv.FormatInt(receivedAt.UnixMilli(), 10)
	for _, c := range []struct{ format, text, want string }{
		{verify.TimeUnix, unix, "valid"},
		{verify.TimeUnix, "00" + unix, "malformed"},
		{verify.TimeUnix, ms, "malformed"},
		{verify.TimeUnix, "abc", "malformed"},
		{verify.TimeUnix, "1e9", "malformed"},
		{verify.TimeUnix, "-1", "malformed"},
		{verify.TimeUnix, "+" + unix, "malformed"},
		{verify.TimeUnix, unix + ".0", "malformed"},
		{verify.TimeUnix, " " + unix, "malformed"},
		{verify.TimeUnix, "0x68e77980", "malformed"},
		{verify.TimeUnix, "١٧٦٠٠٠٠٠٠٠", "malformed"},
		{verify.TimeUnix, strings.Repeat("9", 20), "malformed"},
		{verify.TimeUnix, strings.Repeat("9", 13), "malformed"},
		{verify.TimeUnix, strings.Repeat("9", 12), "too new"},
		{verify.TimeUnix, "0", "too old"},
		{verify.TimeUnixMS, ms, "valid"},
		{verify.TimeUnixMS, unix, "too old"},
		{verify.TimeUnixMS, strings.Repeat("9", 15), "too new"},
		{verify.TimeUnixMS, strings.Repeat("9", 16), "malformed"},
		{verify.TimeRFC3339, "2025-10-09T08:53:20Z", "valid"},
		{verify.TimeRFC3339, "2025-10-09T10:53:20.25+02:00", "valid"},
		{verify.TimeRFC3339, "2025-10-09T08:53:20", "malformed"},
		{verify.TimeRFC3339, "2025-10-09 08:53:20Z", "malformed"},
		{verify.TimeRFC3339, "2025-10-09T08:53:20,5Z", "malformed"},
		{verify.TimeRFC3339, "2025-10-09T8:53:20Z", "malformed"},
		{verify.TimeRFC3339, "9999-12-31T23:59:59Z", "too new"},
		{verify.TimeRFC3339, "0000-01-01T00:00:00Z", "too old"},
		{verify.TimeRFC3339, unix, "malformed"},
	} {
		t.Run(c.format+"/"+c.text, func(t *testing.T) {
			t.Parallel()
			v := mustCompile(t, verify.Scheme{
				ID: "x", Family: verify.FamilyHMAC, Header: "X-Sig", Content: "{timestamp}.{body}",
				Timestamp: &verify.Timestamp{At: "header:X-Time", Format: c.format},
			})
			// The signer has no time rule, and signs the same bytes.
			signer := mustCompile(t, verify.Scheme{
				ID: "x", Family: verify.FamilyHMAC, Header: "X-Sig", Content: c.text + ".{body}",
			})
			keys := mustKeys(t, v, hmacSecret)
			req := signedRequest(t, signer, mustKeys(t, signer, hmacSecret)[0], "{}")
			req.Header.Set("X-Time", c.text)
			wantVerdict(t, v.Verify(req, keys), c.want)
			req.Body = []byte("{ }")
			wantVerdict(t, v.Verify(req, keys), "mismatch")
		})
	}
}

// TestTolerance checks the limits of the tolerance for each format of time.
func TestTolerance(t *testing.T) {
	t.Parallel()
	for _, s := range shapes() {
		if s.scheme.Timestamp == nil && s.scheme.Family == verify.FamilyHMAC {
			continue
		}
		for _, tolerance := range []time.Duration{0, 10 * time.Second} {
			scheme := s.scheme
			edge := verify.DefaultTolerance
			if tolerance != 0 {
				edge = tolerance
				clock := verify.Timestamp{Tolerance: tolerance}
				if scheme.Timestamp != nil {
					clock.At, clock.Format = scheme.Timestamp.At, scheme.Timestamp.Format
				}
				scheme.Timestamp = &clock
			}
			v := mustCompile(t, scheme)
			keys := mustKeys(t, v, s.secret)
			for _, c := range []struct {
				after time.Duration
				want  string
			}{
				{0, "valid"},
				{edge - time.Second, "valid"},
				{edge, "valid"},
				{edge + time.Second, "too old"},
				{1000 * time.Hour, "too old"},
				{200 * 365 * 24 * time.Hour, "too old"},
				{time.Second - edge, "valid"},
				{-edge, "valid"},
				{-edge - time.Second, "too new"},
				{-1000 * time.Hour, "too new"},
			} {
				t.Run(fmt.Sprintf("%s/%s/%s", s.name, edge, c.after), func(t *testing.T) {
					t.Parallel()
					req := signedRequest(t, v, keys[0], "{}")
					req.Now = receivedAt.Add(c.after)
					wantVerdict(t, v.Verify(req, keys), c.want)
				})
			}
		}
	}
}

// TestSecondsIgnoreFractions checks that a time in whole seconds is compared with whole seconds, in
// both directions.
func TestSecondsIgnoreFractions(t *testing.T) {
	t.Parallel()
	s := shapes()[1]
	v := mustCompile(t, s.scheme)
	keys := mustKeys(t, v, s.secret)
	req := signedRequest(t, v, keys[0], "{}")
	req.Now = receivedAt.Add(300*time.Second + 999*time.Millisecond)
	wantVerdict(t, v.Verify(req, keys), "valid")
	req.Now = receivedAt.Add(-301*time.Second + 999*time.Millisecond)
	wantVerdict(t, v.Verify(req, keys), "too new")
}

// TestKeys checks which keys are tried.
func TestKeys(t *testing.T) {
	t.Parallel()
	for _, s := range shapes() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			v := mustCompile(t, s.scheme)
			good := mustKeys(t, v, s.secret)[0]
			other := mustKeys(t, v, map[bool]string{
				true:  "whpk_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAc=",
				false: "whsec_b3RoZXItc2VjcmV0LW90aGVyLXNlY3JldA==",
			}[s.name == "v1a"])[0]
			req := signedRequest(t, v, good, "{}")
			wantVerdict(t, v.Verify(req, []verify.Key{good}), "valid")
			wantVerdict(t, v.Verify(req, []verify.Key{other, good}), "valid")
			wantVerdict(t, v.Verify(req, []verify.Key{good, other}), "valid")
			wantVerdict(t, v.Verify(req, []verify.Key{other}), "mismatch")
			foreign := mustKeys(t, mustCompile(t, shapes()[map[bool]int{true: 0, false: 5}[s.name == "v1a"]].scheme),
				map[bool]string{true: hmacSecret, false: whskSecret}[s.name == "v1a"])[0]
			for name, keys := range map[string][]verify.Key{
				"nil": nil, "none": {}, "zero": {{}}, "good and zero": {good, {}}, "of another kind": {foreign},
			} {
				if err := v.Verify(req, keys); !errors.Is(err, verify.ErrNoKeys) {
					t.Errorf("keys %s: got %v, want ErrNoKeys", name, err)
				}
			}
		})
	}
}
