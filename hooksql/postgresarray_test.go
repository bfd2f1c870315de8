package hooksql

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/hookonce/hookonce/internal/pgstore"
)

// TestPostgresArrayOut reads arrays from the server, in both of its formats for bytes.
func TestPostgresArrayOut(t *testing.T) {
	t.Parallel()
	element := rapid.OneOf(
		rapid.SliceOfN(rapid.Byte(), 0, 40), rapid.Just([]byte(nil)), rapid.Just([]byte("NULL")),
		rapid.SliceOfN(rapid.SampledFrom([]byte(`\"{},'x0 N`)), 0, 8),
	)
	for _, mode := range argModes {
		for _, format := range []string{"hex", "escape"} {
			t.Run(mode+"/"+format, func(t *testing.T) {
				t.Parallel()
				db := openMode(t, mode)
				db.pool.SetMaxOpenConns(1)
				if err := db.Script(t.Context(), "SET bytea_output = '"+format+"'"); err != nil {
					t.Fatal(err)
				}
				rapid.Check(t, func(rt *rapid.T) {
					want := rapid.OneOf(rapid.SliceOfN(element, 0, 8), rapid.Just([][]byte(nil))).Draw(rt, "elements")
					got := collect[[][]byte](rt, func() (pgstore.Rows, error) { return db.Query(t.Context(), "SELECT $1::bytea[]", want) })
					if diff := cmp.Diff([][][]byte{want}, got); diff != "" {
						rt.Fatalf("sent and received differ (-want +got):\n%s", diff)
					}
				})
			})
		}
	}
}

func TestPostgresArrayMalformed(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "{", "}", "x", "{a", "a}", "{,}", "{a,}", "{,a}", `{"}`, `{"a}`, `{"a"b}`, `{a"b"}`, "{{a}}", "[0:1]={a,b}",
		`{"\\x0"}`, `{"\\xzz"}`, `{"\\4"}`, `{"\\400"}`, `{"\\08"}`, `{\`, `{"\`,
	} {
		into := [][]byte{{1}}
		if err := (byteaArray{&into}).Scan(text); err == nil {
			t.Errorf("%q was read as %q", text, into)
		}
	}
	if err := (byteaArray{new([][]byte)}).Scan(1); err == nil {
		t.Error("a number was read as an array")
	}
}
