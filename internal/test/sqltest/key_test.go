package sqltest

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/hookonce/hookonce/driver"
)

// TestKeysAgree compares the keys made in SQL with those made in Go.
func TestKeysAgree(t *testing.T) {
	t.Parallel()
	w := open(t)
	text := rapid.StringOfN(rapid.RuneFrom([]rune("a:.,'\\ é🙂\n")), 0, 6, -1)
	rapid.Check(t, func(r *rapid.T) {
		source, parts := text.Draw(r, "source"), rapid.SliceOfN(text, 1, 4).Draw(r, "parts")
		want := driver.EventKey(source, parts...)
		got := get[[]byte](t, w, "SELECT hookonce.hash_strings($1)", append([]string{"event", source}, parts...))
		if !bytes.Equal(got, want[:]) {
			r.Fatalf("the key of %q %q is %x in SQL and %x in Go", source, parts, got, want)
		}
		outbox := driver.OutboxKey(parts[0])
		if got := get[[]byte](t, w, "SELECT hookonce.hash_strings($1)", []string{"outbox", parts[0]}); !bytes.Equal(got, outbox[:]) {
			r.Fatalf("the key of message %q is %x in SQL and %x in Go", parts[0], got, outbox)
		}
	})
}

// TestCandidatesAgree looks for events under every key that Go generates.
func TestCandidatesAgree(t *testing.T) {
	t.Parallel()
	w := open(t)
	for _, id := range []string{"", ":", "a", "a:b", "::a", "a:b:c:d", "1:2:3:4:5:6:7:8:9:10:11"} {
		candidates := driver.CandidateKeys("shop", id)
		if want := 1 << strings.Count(id, ":"); len(candidates) != want {
			t.Fatalf("%q has %d keys, want %d", id, len(candidates), want)
		}
		const insert = `INSERT INTO hookonce.event (key, source, event_id, type, body_sha256, work)
			SELECT k, $2, $3, '', k, 0 FROM unnest($1::bytea[]) k`
		var keys [][]byte
		for i, k := range candidates {
			// A sample, because each look-up makes all the keys.
			if len(candidates) < 32 || i%100 == 0 || i == len(candidates)-1 {
				keys = append(keys, k[:])
			}
		}
		w.exec(t, insert, keys, "shop", id)
		// The candidates are found in their order.
		for _, want := range keys {
			got := get[[]byte](t, w, "SELECT hookonce.find_event('shop', $1)", id)
			if !bytes.Equal(got, want) {
				t.Fatalf("%q: found %x, want %x", id, got, want)
			}
			w.exec(t, "DELETE FROM hookonce.event WHERE key = $1", got)
		}
		if found := get[*[]byte](t, w, "SELECT hookonce.find_event('shop', $1)", id); found != nil {
			t.Errorf("%q: found %x, but there is no such event", id, *found)
		}
	}
}
