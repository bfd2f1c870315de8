package provider

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce/internal/locate"
	"github.com/hookonce/hookonce/verify"
)

// TestSignedAsTheProviderDoes signs a request with every scheme of the catalog and a new key,
// verifies it, and changes it.
func TestSignedAsTheProviderDoes(t *testing.T) {
	t.Parallel()
	for _, name := range Names() {
		spec, err := Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, scheme := range spec.Schemes {
			if scheme.Family == verify.FamilyNone {
				continue
			}
			for _, values := range settings(&scheme) {
				t.Run(string(name)+"/"+scheme.ID+values.title, func(t *testing.T) {
					t.Parallel()
					one := scheme
					one.Values = values.of
					testSigned(t, one)
				})
			}
		}
	}
}

// setting holds values for all parameters of a scheme.
type setting struct {
	title string
	of    map[string]string
}

// settings returns one setting for each value that changes the scheme, or one if none does.
func settings(scheme *verify.Scheme) []setting {
	plain := map[string]string{}
	all := []setting{}
	for _, p := range scheme.Params {
		if p.Sets == nil {
			plain[p.Name] = sampleValue(p.Name)
		}
	}
	for _, p := range scheme.Params {
		for _, value := range slices.Sorted(maps.Keys(p.Sets)) {
			values := maps.Clone(plain)
			values[p.Name] = value
			all = append(all, setting{"/" + value, values})
		}
	}
	if len(all) == 0 {
		all = append(all, setting{of: plain})
	}
	return all
}

func testSigned(t *testing.T, scheme verify.Scheme) {
	v, err := verify.Compile(scheme)
	if err != nil {
		t.Fatal(err)
	}
	private, public := newKey(t, v)
	_, other := newKey(t, v)
	req := sampleRequest(scheme)
	if err := v.Sign(req, private); err != nil {
		t.Fatal(err)
	}
	if err := v.Verify(req, []verify.Key{other, public}); err != nil {
		t.Fatalf("%v\n%s %s\n%v\n%s", err, req.Method, req.URL, req.Header, req.Body)
	}
	if err := v.Verify(req, []verify.Key{other}); err == nil {
		t.Error("another key accepts it")
	}
	late := *req
	late.Now = late.Now.Add(49 * time.Hour)
	if scheme.Timestamp != nil {
		late.Now = late.Now.Add(scheme.Timestamp.Tolerance)
	}
	if err := v.Verify(&late, []verify.Key{public}); err == nil && (scheme.Timestamp != nil || scheme.JWT != nil && scheme.JWT.Expires) {
		t.Error("it is accepted two days later")
	}
	whole := v.Covers(parseExpr(t, "body:sample"))
	changed := 0
	for i := range req.Body {
		bad := *req
		bad.Body = []byte(string(req.Body))
		bad.Body[i] ^= 1
		if v.Verify(&bad, []verify.Key{public}) != nil {
			changed++
		} else if whole {
			t.Fatalf("with another byte %d of the body it is accepted: %s", i, bad.Body)
		}
	}
	if scheme.At != "" && !strings.HasPrefix(scheme.At, "query:") && changed == 0 {
		t.Error("every change of the body is accepted, although the signature covers it")
	}
	for name := range req.Header {
		if name != http.CanonicalHeaderKey(scheme.Header) {
			continue
		}
		bad := *req
		bad.Header = req.Header.Clone()
		value := []byte(req.Header.Get(name))
		value[len(value)/2] ^= 1
		bad.Header.Set(name, string(value))
		if v.Verify(&bad, []verify.Key{public}) == nil {
			t.Errorf("%s is accepted as %q", name, value)
		}
	}
	testLists(t, v, scheme, req, public)
}

// testLists puts empty elements and blanks into the list of signatures, which RFC 9110, section 5.6.1, ignores.
func testLists(t *testing.T, v *verify.Verifier, scheme verify.Scheme, req *verify.Request, key verify.Key) {
	t.Helper()
	name, separator := scheme.Header, cmp.Or(scheme.Separator, ",")
	good := req.Header.Get(name)
	doubled := strings.ReplaceAll(good, separator, separator+separator+" "+separator)
	blanks := strings.ReplaceAll(good, separator, " \t"+separator+"\t  ")
	switch {
	case scheme.Family == verify.FamilyStandardWebhooks || scheme.Format == verify.FormatGroups:
		if separator = " "; name == "" {
			name = "Webhook-Signature"
		}
		if good = req.Header.Get(name); good == "" {
			name, good = "Svix-Signature", req.Header.Get("Svix-Signature")
		}
		doubled, blanks = good+"  "+good, "   "+good+"   "
	case name == "" || scheme.Format != verify.FormatKV && scheme.Format != verify.FormatList:
		return
	}
	for _, value := range []string{good + separator, separator + good, doubled, blanks} {
		spelled := *req
		spelled.Header = req.Header.Clone()
		spelled.Header.Set(name, value)
		if err := v.Verify(&spelled, []verify.Key{key}); err != nil {
			t.Errorf("%s is refused as %q: %v", name, value, err)
		}
	}
}

func newKey(t *testing.T, v *verify.Verifier) (private, public verify.Key) {
	t.Helper()
	privateText, publicText, err := v.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	if private, err = v.ParseKey(privateText); err != nil {
		t.Fatal(err)
	}
	if publicText == "" {
		return private, private
	}
	if public, err = v.ParseKey(publicText); err != nil {
		t.Fatal(err)
	}
	return private, public
}

var placeholderRegexp = regexp.MustCompile(`\{(header|json|form|item):([^}]+)\}`)

// sampleRequest returns a request with all values that the scheme signs.
func sampleRequest(scheme verify.Scheme) *verify.Request {
	req := &verify.Request{
		Method: http.MethodPost, URL: "https://hooks.example.com/webhooks/sample", Now: time.Unix(1700000000, 0),
		Header: http.Header{"Content-Type": {"application/json"}, "Webhook-Id": {"msg_1"}},
	}
	form, members, items := false, []string{`"sample":"1"`}, []string(nil)
	set := func(kind, name string) {
		value := fmt.Sprintf("v%d", len(members)+len(items))
		switch kind {
		case "header":
			req.Header.Set(name, value)
		case "form":
			form, members = true, append(members, name+"="+value)
		case "json", "body":
			members = append(members, nested(name, value))
		case "item":
			items = append(items, name)
		}
	}
	for _, m := range placeholderRegexp.FindAllStringSubmatch(scheme.Content, -1) {
		set(m[1], m[2])
	}
	for _, word := range []string{"{sorted_form}", "{php_form}", "{vonage_params}"} {
		form = form || strings.Contains(scheme.Content, word)
	}
	form = form || strings.HasPrefix(scheme.At, "form:")
	switch {
	case scheme.Document != "":
		document := "{" + strings.Join(members, ",") + "}"
		req.Body = []byte(url.Values{strings.TrimPrefix(scheme.Document, "form:"): {document}}.Encode())
	case form:
		members[0] = "sample=1"
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Body = []byte(strings.Join(members, "&"))
	case scheme.Each != "":
		array := strings.TrimPrefix(scheme.Each, "body:")
		item := `{"NotificationRequestItem":{"additionalData":{},"pspReference":"p","amount":{"value":1,"currency":"EUR"},"success":"true"},"id":"1"}`
		req.Body = []byte(fmt.Sprintf(`{"sample":"1",%q:[%s,%s]}`, array, item, strings.ReplaceAll(item, `"1"`, `"2"`)))
	case scheme.Content == "{sns}":
		req.Body = []byte(`{"Type":"Notification","MessageId":"m1","Message":"hello","sample":"1"}`)
	case scheme.At == "body:":
		req.Body = []byte(`{"data":"{}"}`)
	default:
		req.Body = []byte("{" + strings.Join(members, ",") + "}")
	}
	return req
}

// nested returns a JSON object with value at path.
func nested(path, value string) string {
	parts := strings.Split(path, ".")
	text := fmt.Sprintf("%q", value)
	for i := len(parts) - 1; i > 0; i-- {
		text = fmt.Sprintf("{%q:%s}", parts[i], text)
	}
	return fmt.Sprintf("%q:%s", parts[0], text)
}

func parseExpr(t *testing.T, text string) *locate.Expr {
	t.Helper()
	e, err := locate.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestLateAttempts verifies attempts with the time and the signature of the first one, until the provider's last retry.
func TestLateAttempts(t *testing.T) {
	t.Parallel()
	checked := 0
	for _, name := range Names() {
		spec, err := Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, scheme := range spec.Schemes {
			if spec.Retry.Signed != SignedOnce || scheme.Timestamp == nil || scheme.Weak != "" {
				continue
			}
			scheme.Values = settings(&scheme)[0].of
			v, err := verify.Compile(scheme)
			if err != nil {
				t.Fatal(err)
			}
			private, public := newKey(t, v)
			req := sampleRequest(scheme)
			if err := v.Sign(req, private); err != nil {
				t.Fatal(err)
			}
			first := req.Now
			for after, want := range map[time.Duration]error{
				0: nil, time.Hour: nil, spec.Retry.Window / 2: nil, spec.Retry.Window: nil, spec.Retry.Window + time.Minute: nil,
				scheme.Timestamp.Tolerance + time.Second: verify.ErrTooOld, 100 * spec.Retry.Window: verify.ErrTooOld,
			} {
				req.Now = first.Add(after)
				if err := v.Verify(req, []verify.Key{public}); !errors.Is(err, want) {
					t.Errorf("%s, scheme %s, after %v: %v, want %v", name, scheme.ID, after, err, want)
				}
			}
			checked++
		}
	}
	if checked < 3 {
		t.Errorf("%d schemes were checked", checked)
	}
}
