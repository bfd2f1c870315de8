package provider

import (
	"encoding/base64"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/verify"
)

// namedToken returns the start of a JWT or JWS whose header names the key.
func namedToken(algorithm, kid string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"`+algorithm+`","kid":"`+kid+`"}`)) + ".e30.AAAA"
}

// TestKeySources checks the request that fetches the keys, for each provider that publishes keys.
func TestKeySources(t *testing.T) {
	t.Parallel()
	const tenant = "11111111-2222-3333-4444-555555555555"
	type want struct{ Method, URL, Body, Authorization string }
	wants := map[string]struct {
		header, body string // lines of name: value
		value        string
		values       map[string]string
		want         want
	}{
		"plaid/plaid-verification": {
			header: "Plaid-Verification", value: namedToken("ES256", "6c5516e1"), values: map[string]string{"client_id": `c"1`, "secret": "s"},
			want: want{Method: "POST", URL: "https://production.plaid.com/webhook_verification_key/get", Body: `{"client_id":"c\"1","secret":"s","key_id":"6c5516e1"}`},
		},
		"google-pubsub/oidc": {
			header: "Authorization", value: "Bearer " + namedToken("RS256", "k1"),
			want: want{Method: "GET", URL: "https://www.googleapis.com/oauth2/v3/certs"},
		},
		"azure-event-grid/entra-jwt": {
			header: "Authorization", value: "Bearer " + namedToken("RS256", "k1"), values: map[string]string{"tenant": tenant},
			want: want{Method: "GET", URL: "https://login.microsoftonline.com/" + tenant + "/discovery/v2.0/keys"},
		},
		"fireblocks/jws-v2": {
			header: "Fireblocks-Webhook-Signature", value: base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"RS512","kid":"k1"}`)) + "..AAAA",
			want: want{Method: "GET", URL: "https://keys.fireblocks.io/.well-known/jwks.json"},
		},
		"circle/ecdsa": {
			header: "X-Circle-Key-Id", value: "879dc113-5ca4", values: map[string]string{"api_key": "TEST_API_KEY:1"},
			want: want{Method: "GET", URL: "https://api.circle.com/v2/cpn/notifications/publicKey/879dc113-5ca4", Authorization: "Bearer TEST_API_KEY:1"},
		},
		"travis-ci/rsa-sha1": {
			header: "Signature", value: "AAAA",
			want: want{Method: "GET", URL: "https://api.travis-ci.com/config"},
		},
		"paypal/rsa-sha256": {
			header: "Paypal-Cert-Url", value: "https://api.paypal.com/v1/notifications/certs/CERT-1", values: map[string]string{"webhook_id": "w"},
			want: want{Method: "GET", URL: "https://api.paypal.com/v1/notifications/certs/CERT-1"},
		},
		"adobe-io-events/digital-signature": {
			header: "X-Adobe-Public-Key1-Path", value: "/prod/keys/pub-key-3fVj.pem",
			want: want{Method: "GET", URL: "https://static.adobeioevents.com/prod/keys/pub-key-3fVj.pem"},
		},
		"aws-sns/v2": {
			body: `{"SigningCertURL":"https://sns.eu-west-1.amazonaws.com/a.pem"}`,
			want: want{Method: "GET", URL: "https://sns.eu-west-1.amazonaws.com/a.pem"},
		},
		"aws-sns/v1": {
			body: `{"SigningCertURL":"https://sns.cn-north-1.amazonaws.com.cn/a.pem"}`,
			want: want{Method: "GET", URL: "https://sns.cn-north-1.amazonaws.com.cn/a.pem"},
		},
	}
	for _, name := range Names() {
		spec, err := Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, scheme := range spec.Schemes {
			if scheme.Keys == nil {
				continue
			}
			tt, ok := wants[string(name)+"/"+scheme.ID]
			if !ok {
				t.Errorf("%s/%s fetches keys, but has no case here", name, scheme.ID)
				continue
			}
			scheme.Values = tt.values
			v, err := verify.Compile(scheme)
			if err != nil {
				t.Fatal(err)
			}
			req := &verify.Request{Method: http.MethodPost, Header: http.Header{}, Body: []byte(tt.body), Now: time.Unix(1760000000, 0)}
			if tt.header != "" {
				req.Header.Set(tt.header, tt.value)
			}
			ref, err := v.KeyRef(req)
			if err != nil {
				t.Errorf("%s/%s: %v", name, scheme.ID, err)
				continue
			}
			got := want{ref.Method, ref.URL, string(ref.Body), ref.Header.Get("Authorization")}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%s/%s (-want +got):\n%s", name, scheme.ID, diff)
			}
		}
	}
}

// TestSNSHosts checks that certificates are fetched only from SNS: anyone can own other names under
// the same domain.
func TestSNSHosts(t *testing.T) {
	t.Parallel()
	spec, err := Lookup("aws-sns")
	if err != nil {
		t.Fatal(err)
	}
	v, err := verify.Compile(spec.Schemes[0])
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]bool{
		"sns.us-east-1.amazonaws.com": true, "sns.us-gov-west-1.amazonaws.com": true, "sns.ap-southeast-2.amazonaws.com": true,
		"sns.cn-northwest-1.amazonaws.com.cn": true,
		"sns.s3-us-west-2.amazonaws.com":      false, "sns.s3.amazonaws.com": false, "sns.us-east-1.s3.amazonaws.com": false,
		"sns.us-east-1.amazonaws.com.example.com": false, "xsns.us-east-1.amazonaws.com": false, "sns.amazonaws.com": false,
	} {
		body := `{"SigningCertURL":"https://` + host + `/a.pem"}`
		_, err := v.KeyRef(&verify.Request{Method: http.MethodPost, Header: http.Header{}, Body: []byte(body), Now: time.Unix(1760000000, 0)})
		if (err == nil) != want {
			t.Errorf("%s: got the error %v, want it to be allowed: %t", host, err, want)
		}
	}
}
