package provider

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/verify"
)

// answeredAt has a fraction of a second, which no answer contains.
var answeredAt = time.Date(2025, 2, 21, 5, 43, 9, 123456789, time.FixedZone("", 8*3600))

// ackSigner returns a signer with a new key, and the key's public half.
func ackSigner(t *testing.T, s *AckSignature) (*AckSigner, any) {
	t.Helper()
	v, err := verify.Compile(s.Scheme)
	if err != nil {
		t.Fatal(err)
	}
	private, public, err := v.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	signer, err := s.Signer(private)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode([]byte(public))
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return signer, key
}

// TestAckOfAlipay checks a signed answer without the code that makes signatures.
func TestAckOfAlipay(t *testing.T) {
	t.Parallel()
	spec, err := Lookup(Alipay)
	if err != nil {
		t.Fatal(err)
	}
	signer, key := ackSigner(t, spec.AckSignature())
	delivery := &verify.Request{
		Method: http.MethodPost, URL: "https://hooks.example.com/webhooks/pay", Body: []byte(`{"paymentId":"1"}`),
		Header: http.Header{"Client-Id": {"SANDBOX_5Y"}, "Request-Time": {"2025-02-21T05:43:00Z"}, "X-Other": {"x"}},
	}
	header, err := signer.Sign(delivery, []byte(spec.Ack.Body), answeredAt)
	if err != nil {
		t.Fatal(err)
	}
	text, ok := strings.CutPrefix(header.Get("Signature"), "algorithm=RSA256,keyVersion=1,signature=")
	escaped, err := url.QueryUnescape(text)
	sig, badBase64 := base64.StdEncoding.DecodeString(escaped)
	if !ok || err != nil || badBase64 != nil || strings.ContainsAny(text, "+/=") {
		t.Fatalf("Signature: %s", header.Get("Signature"))
	}
	sum := sha256.Sum256([]byte("POST /webhooks/pay\nSANDBOX_5Y.2025-02-20T21:43:09Z." +
		`{"result":{"resultCode":"SUCCESS","resultStatus":"S","resultMessage":"success"}}`))
	if err := rsa.VerifyPKCS1v15(key.(*rsa.PublicKey), crypto.SHA256, sum[:], sig); err != nil {
		t.Error(err)
	}
	header.Del("Signature")
	want := http.Header{"Client-Id": {"SANDBOX_5Y"}, "Response-Time": {"2025-02-20T21:43:09Z"}}
	if diff := cmp.Diff(want, header); diff != "" {
		t.Errorf("the other headers (-want +got):\n%s", diff)
	}
	if len(delivery.Header) != 3 {
		t.Errorf("the delivery was changed: %v", delivery.Header)
	}
	delete(delivery.Header, "Client-Id")
	if header, err := signer.Sign(delivery, nil, answeredAt); err == nil {
		t.Errorf("signed without a Client-Id: %v", header)
	}
}

// TestAckOfOtherShape checks that different data alone gives another form of signed answer.
func TestAckOfOtherShape(t *testing.T) {
	t.Parallel()
	signer, key := ackSigner(t, &AckSignature{
		Scheme: verify.Scheme{
			Family: verify.FamilySignature, Header: "X-Answer", Format: verify.FormatKV, SignatureKeys: []string{"s"},
			Algorithm: verify.AlgorithmEd25519, Content: "{timestamp}|{header:X-Nonce}|{sha256:body}",
			Timestamp: &verify.Timestamp{At: "header:X-Answer#t", Format: verify.TimeUnixMS},
		},
		Repeat: []string{"x-nonce", "x-absent"},
	})
	if signer.NeedsURL() {
		t.Error("it needs a URL")
	}
	header, err := signer.Sign(&verify.Request{Method: http.MethodPost, Header: http.Header{"X-Nonce": {"n1"}}}, []byte("mine"), answeredAt)
	if err != nil {
		t.Fatal(err)
	}
	text, ok := strings.CutPrefix(header.Get("X-Answer"), "t=1740087789000,s=")
	sig, err := hex.DecodeString(text)
	if !ok || err != nil || header.Get("X-Nonce") != "n1" || len(header) != 2 {
		t.Fatalf("%v", header)
	}
	sum := sha256.Sum256([]byte("mine"))
	if !ed25519.Verify(key.(ed25519.PublicKey), []byte("1740087789000|n1|"+hex.EncodeToString(sum[:])), sig) {
		t.Error("the signature is wrong")
	}
}
