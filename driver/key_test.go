package driver_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/hookonce/hookonce/driver"
)

// TestKeysNeverChange pins the keys that databases hold. The expected values were computed outside
// this program from the description of Key.
func TestKeysNeverChange(t *testing.T) {
	t.Parallel()
	event := driver.EventKey("stripe", "evt_1")
	for _, c := range []struct {
		name string
		key  driver.Key
		want string
	}{
		{"one part", event, "852fdbc3d54784b7baee7d42d75b7e1dad314b954f8478abf51e90468c3a5b6d"},
		{"two parts", driver.EventKey("meta", "a", "b"), "fc4143a9c43abb1405750c1403cb03d7995dced9ee9202b8206acaffedbff149"},
		{"empty part", driver.EventKey("stripe", ""), "c27dfb7120903acda98d81f3dfe7576dfe7cfa3d3a6f4673db452d138373d814"},
		{"no part", driver.EventKey("stripe"), "7bb4ad0df9222863866d951fdb2feb0730f45a38714cb29a160a91978a9a0205"},
		{"body", driver.BodyKey("github", sha256.Sum256([]byte("body"))), "83a06f1869df297b59a6693ccd94572213a154f878ab810e628a92939645d8d8"},
	} {
		if got := hex.EncodeToString(c.key[:]); got != c.want {
			t.Errorf("%s: got the key %s, want %s", c.name, got, c.want)
		}
	}
	for generation, want := range map[int]string{
		0: "msg_qux5xq6vi6clpoxo4yng2g2u7b7uxygn",
		7: "msg_qux5xq6vi6clpoxotochsnadfbubqqzp",
	} {
		if got := driver.MessageID(event, generation, "billing"); got != want {
			t.Errorf("generation %d: got the message id %s, want %s", generation, got, want)
		}
	}
}

// TestEventsOfMessage checks that the id of a message leads to its event, and that other texts do not
// pass for such an id.
func TestEventsOfMessage(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		key := driver.EventKey("s", rapid.String().Draw(t, "event id"))
		id := driver.MessageID(key, rapid.IntRange(0, 9).Draw(t, "generation"), rapid.String().Draw(t, "route"))
		first, last, ok := driver.EventsOfMessage(id)
		if !ok || bytes.Compare(key[:], first[:]) < 0 || bytes.Compare(key[:], last[:]) > 0 {
			t.Fatalf("the id %s of a message of %x leads to %x to %x (%v)", id, key, first, last, ok)
		}
		if !bytes.Equal(first[:10], last[:10]) {
			t.Fatalf("the id %s leads to %x to %x, which is too wide", id, first, last)
		}
		for _, other := range []string{"", "msg_", id[1:], id[:len(id)-1], id + "a", strings.ToUpper(id), id[:20] + "1" + id[21:], id[:20] + "\n" + id[21:]} {
			if _, _, ok := driver.EventsOfMessage(other); ok {
				t.Fatalf("%q passes for the id of a routed message", other)
			}
		}
	})
}

// TestEventKeyKeepsPartsApart checks that two different lists of strings have different keys, even
// if their concatenations are equal.
func TestEventKeyKeepsPartsApart(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.SliceOfN(rapid.StringOfN(rapid.RuneFrom([]rune("ab:\x00é")), 0, 3, -1), 0, 4)
		a, b := texts.Draw(t, "a"), texts.Draw(t, "b")
		sourceA, sourceB := rapid.SampledFrom([]string{"", "a", "ab"}).Draw(t, "source a"), rapid.SampledFrom([]string{"", "a", "ab"}).Draw(t, "source b")
		equal := sourceA == sourceB && slices.Equal(a, b)
		if got := driver.EventKey(sourceA, a...) == driver.EventKey(sourceB, b...); got != equal {
			t.Fatalf("keys of %q %q and %q %q: equal is %v, want %v", sourceA, a, sourceB, b, got, equal)
		}
	})
}

// TestKindsOfKeysDiffer checks that a body's key is never an event's key.
func TestKindsOfKeysDiffer(t *testing.T) {
	t.Parallel()
	hash := sha256.Sum256([]byte("body"))
	if driver.BodyKey("github", hash) == driver.EventKey("github", string(hash[:])) {
		t.Error("a body and the event whose id is the body's hash have the same key")
	}
	if driver.BodyKey("github", hash) == driver.BodyKey("shopify", hash) {
		t.Error("a body has the same key in two sources")
	}
}

func TestCandidateKeys(t *testing.T) {
	t.Parallel()
	key := func(parts ...string) driver.Key { return driver.EventKey("s", parts...) }
	for _, c := range []struct {
		id   string
		want []driver.Key
	}{
		{"", []driver.Key{key("")}},
		{"evt_1", []driver.Key{key("evt_1")}},
		{"a:b", []driver.Key{key("a:b"), key("a", "b")}},
		{":", []driver.Key{key(":"), key("", "")}},
		{"a:b:c", []driver.Key{key("a:b:c"), key("a", "b:c"), key("a:b", "c"), key("a", "b", "c")}},
	} {
		if diff := cmp.Diff(c.want, driver.CandidateKeys("s", c.id)); diff != "" {
			t.Errorf("CandidateKeys of %q (-want +got):\n%s", c.id, diff)
		}
	}
	if got := len(driver.CandidateKeys("s", strings.Repeat(":", 10))); got != 1024 {
		t.Errorf("an id of 11 pieces has %d candidates, want 1,024", got)
	}
	for _, colons := range []int{11, 64, 255} {
		if got := driver.CandidateKeys("s", strings.Repeat(":", colons)); got != nil {
			t.Errorf("an id with %d colons has %d candidates, want none", colons, len(got))
		}
	}
}

// TestCandidateKeysHoldEveryList checks that the candidates of a shown id contain the key of its
// parts exactly once.
func TestCandidateKeysHoldEveryList(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(rapid.StringOfN(rapid.RuneFrom([]rune("ab:")), 0, 3, -1), 1, 4).Draw(t, "parts")
		id := strings.Join(parts, ":")
		candidates := driver.CandidateKeys("s", id)
		if strings.Count(id, ":") > 10 {
			if candidates != nil {
				t.Fatalf("%q has %d candidates, want none", id, len(candidates))
			}
			return
		}
		if candidates[0] != driver.EventKey("s", id) {
			t.Fatalf("the first candidate of %q is not the id as a single part", id)
		}
		want, seen := driver.EventKey("s", parts...), map[driver.Key]int{}
		for _, key := range candidates {
			seen[key]++
		}
		if seen[want] != 1 || len(seen) != len(candidates) {
			t.Fatalf("%d candidates of %q, %d different; the key of %q is there %d times, want once", len(candidates), id, len(seen), parts, seen[want])
		}
	})
}

func TestMessageID(t *testing.T) {
	t.Parallel()
	shape := regexp.MustCompile(`^msg_[a-z2-7]{32}$`)
	seen := map[string]string{}
	for _, source := range []string{"stripe", "github"} {
		for _, generation := range []int{0, 1, 256, 1 << 40} {
			for _, route := range []string{"", "a", "b", "it's.dotted"} {
				id := driver.MessageID(driver.EventKey(source, "evt_1"), generation, route)
				if !shape.MatchString(id) {
					t.Errorf("the message id %q does not have the shape %s", id, shape)
				}
				what := fmt.Sprintf("%s, generation %d, route %q", source, generation, route)
				if other, ok := seen[id]; ok {
					t.Errorf("%s and %s have the same message id", what, other)
				}
				seen[id] = what
			}
		}
	}
}
