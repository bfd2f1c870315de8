package send

import (
	"strings"
	"testing"
)

func TestCheckURL(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 63)
	for _, raw := range []string{
		"http://billing/", "https://billing:443", "http://billing:1/", "http://billing:65535/", "HTTP://127.0.0.1:3000/a?b=c",
		"http://[::1]:8080/", "http://[2001:db8::1]/", "http://my_app.internal./", "http://bücher.example/", "https://x.example/%20?q=%23",
		"http://1.example/", "http://" + long + "/", "http://a-b.c-d/", "http://10.0.0.1/",
	} {
		if err := CheckURL(raw); err != nil {
			t.Errorf("%s: %v", raw, err)
		}
	}
	for raw, want := range map[string]string{
		"":                             "must begin with http",
		"billing:3000":                 "must begin with http",
		"http:billing":                 "no host",
		"http:///hooks":                "no host",
		"http://:80/":                  "no host",
		"http://127.0.0.1:99999/":      "1 to 65535",
		"http://billing:65536/":        "1 to 65535",
		"http://billing:0/":            "1 to 65535",
		"http://billing:000000000080/": "",
		"http://billing:/":             "without a port",
		"http://billing:http/":         "not a URL",
		"http://billing:-1/":           "not a URL",
		"http://::1/":                  "not a URL",
		"http://10.0.0.256/":           "neither a name nor an address",
		"http://1.2.3/":                "neither a name nor an address",
		"http://./":                    "neither a name nor an address",
		"http://a..b/":                 "neither a name nor an address",
		"http://" + long + "a/":        "neither a name nor an address",
		"http://" + strings.Repeat("a.", 127) + "a/": "neither a name nor an address",
		"http://a,b/":         "neither a name nor an address",
		"http://<host>/":      "neither a name nor an address",
		"http://$HOST/":       "neither a name nor an address",
		"http://bil ling/":    "a space",
		"http://billing/a b":  "a space",
		"http://billing/ ":    "a space",
		"http://billing/\t":   "a space",
		"http://billing/a#b":  "fragment",
		"http://billing/#":    "fragment",
		"http://u:p@billing/": "user name",
		"http://u@billing/":   "user name",
		"http://@billing/":    "user name",
	} {
		err := CheckURL(raw)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", raw, err, want)
		}
	}
}

func TestIsPrivate(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]bool{
		"http://127.0.0.1:3000/hooks":     true,
		"http://LOCALHOST./":              true,
		"http://app.localhost/":           true,
		"http://10.0.0.1/":                true,
		"http://[::1]/":                   true,
		"https://93.184.216.34/":          false,
		"https://app.example.com/":        false,
		"https://localhost.example.com/":  false,
		"http://169.254.169.254/metadata": false, // always refused, when it is dialled
		"no URL":                          false,
	} {
		if got := IsPrivate(raw); got != want {
			t.Errorf("IsPrivate(%q) = %v, want %v", raw, got, want)
		}
	}
}
