package sqltest

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/hookonce/hookonce/driver"
)

// TestSignaturesAgree compares the signatures made in SQL with those made in Go.
func TestSignaturesAgree(t *testing.T) {
	t.Parallel()
	w := open(t)
	const uuid = "3f2b8c1e-9d4a-4b6f-8e2d-0a1b2c3d4e5f"
	part := rapid.OneOf(
		rapid.SampledFrom([]string{uuid, uuid[:23], uuid + "0", "x" + uuid, "deadbeef", "cafe", "answered 404", "answered ", "404", "#", "cus_NffrFe2", "10.0.0.7:80", "é", "🙂", "\n", "\x1b[7m", "\x7f\u0085", " ", "I", "ı", "٣"}),
		rapid.StringOfN(rapid.RuneFrom([]rune("09afgAFGzZ-_. é\\")), 0, 40, -1),
		rapid.StringOfN(rapid.Rune().Filter(func(r rune) bool { return r != 0 }), 0, 300, -1),
	)
	rapid.Check(t, func(r *rapid.T) {
		var text string
		for _, p := range rapid.SliceOfN(part, 0, 12).Draw(r, "parts") {
			text += p
		}
		want := driver.ErrorSignature(text)
		if got := get[string](t, w, "SELECT hookonce.error_signature($1)", text); got != want {
			r.Fatalf("the signature of %q is %q in SQL and %q in Go", text, got, want)
		}
	})
	if got := get[string](t, w, "SELECT hookonce.error_signature(NULL)"); got != driver.NoErrorSignature {
		t.Errorf("the signature of NULL is %q", got)
	}
}
