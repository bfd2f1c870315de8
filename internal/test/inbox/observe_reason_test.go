package inbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hooktest"
	"github.com/hookonce/hookonce/internal/tell"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/rig"
	"github.com/hookonce/hookonce/provider"
)

// brokenBody is a body whose reading fails.
type brokenBody struct{ err error }

func (b brokenBody) Read([]byte) (int, error) { return 0, b.err }

// withRefusers adds the sources stripe, whose signatures have a time, and meta, which has handshakes.
// gh takes bodies of up to 100 bytes.
func withRefusers(c *hookonce.Config) {
	c.Sources[0].MaxBody = 100
	c.Sources = append(c.Sources,
		hookonce.Source{Name: "stripe", Provider: provider.Stripe, Secrets: hookonce.StaticSecrets(secret), AckTimeout: 30 * time.Second},
		asanaSource(nil),
		hookonce.Source{Name: "meta", Provider: provider.Meta, Secrets: hookonce.StaticSecrets(secret), AckTimeout: 30 * time.Second, Params: map[string]string{"verify_token": "tok"}})
}

func TestReasonsOfRefusals(t *testing.T) {
	t.Parallel()
	none := func(*hookonce.Config) {}
	one := func(change func(*http.Request)) []*http.Request { return []*http.Request{delivery("1", "{}", change)} }
	body := func(err error) []*http.Request {
		return one(func(r *http.Request) { r.Body = io.NopCloser(brokenBody{err}) })
	}
	tested := make(map[string]bool)
	t.Cleanup(func() {
		for _, reason := range tell.Reasons() {
			if !tested[reason] {
				t.Errorf("the reason %q has no test", reason)
			}
		}
	})
	stripeDelivery := func(ahead time.Duration) []*http.Request {
		source := hookonce.Source{Name: "stripe", Provider: provider.Stripe, Secrets: hookonce.StaticSecrets(secret)}
		return []*http.Request{hooktest.NewRequest(t, source, `{"id":"evt_1","type":"x"}`, hooktest.WithTime(time.Now().Add(ahead)))}
	}
	oncePerHour := hookonce.Rate{Count: 1, Per: time.Hour}
	for reason, tt := range map[string]struct {
		change   func(*hookonce.Config)
		requests []*http.Request // the last one is refused for the reason
	}{
		"unknown_source":    {none, one(to("other"))},
		"method":            {none, one(func(r *http.Request) { r.Method = http.MethodPut })},
		"headers":           {none, one(func(r *http.Request) { r.Header["X-Many"] = make([]string, 200) })},
		"too_large":         {none, []*http.Request{delivery("1", strings.Repeat("a", 101))}},
		"encoding":          {none, one(func(r *http.Request) { r.Header.Set("Content-Encoding", "br") })},
		"unreadable_body":   {none, body(errors.New("broken"))},
		"slow_body":         {none, body(os.ErrDeadlineExceeded)},
		"signature_missing": {none, one(unsign)},
		"signature_wrong":   {none, one(forge)},
		"too_old":           {none, stripeDelivery(-time.Hour)},
		"too_new":           {none, stripeDelivery(time.Hour)},
		"rate":              {func(c *hookonce.Config) { c.Sources[0].Rate = oncePerHour }, []*http.Request{delivery("1", "{}"), delivery("2", "{}")}},
		"unverified_rate":   {func(c *hookonce.Config) { c.UnverifiedRate = oncePerHour }, append(one(forge), one(forge)...)},
		"handshake": {none, one(func(r *http.Request) {
			r.Method, r.URL.Path, r.URL.RawQuery = http.MethodGet, "/webhooks/meta", "hub.mode=subscribe&hub.challenge=1&hub.verify_token=no"
		})},
		"secret": {none, one(func(r *http.Request) {
			r.URL.Path = "/webhooks/asana"
			r.Header.Set("X-Hook-Secret", delivered)
		})},
		"": {none, []*http.Request{delivery("1", "{}")}},
	} {
		tested[reason] = true
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			o := &observed{}
			in := newEngine(t, rig.OpenSQLite(t), func(c *hookonce.Config) {
				withRefusers(c)
				tt.change(c)
				c.Observer = o.observer()
			})
			for _, r := range tt.requests {
				deliver(in, r)
			}
			seen := o.takeDeliveries(t)
			if last := seen[len(seen)-1]; last.Reason != reason {
				t.Errorf("the reason is %q, want %q: %+v", last.Reason, reason, last)
			}
		})
	}
}

// sampledStore tells when the backlog was counted.
type sampledStore struct {
	driver.Store
	sampled sync.WaitGroup // one call of Backlog
	once    sync.Once
}

func (s *sampledStore) Backlog(ctx context.Context, p *driver.BacklogParams) (*driver.Backlog, error) {
	defer s.once.Do(s.sampled.Done)
	return s.Store.Backlog(ctx, p)
}

// TestFiguresAreWritten receives, refuses and sends, and stops: the figures of each are in the store.
func TestFiguresAreWritten(t *testing.T) {
	t.Parallel()
	store, sink := &sampledStore{Store: rig.OpenSQLite(t)}, newSink(t, http.StatusInternalServerError)
	store.sampled.Add(1)
	in := newEngine(t, store, func(c *hookonce.Config) {
		withRefusers(c)
		sendTo(c, sink.URL, quickRetry)
	})
	stop := start(t, in)
	for range 2 {
		deliver(in, delivery("1", "{}"))
	}
	deliver(in, delivery("1", "{}", unsign))
	deliver(in, delivery("1", "{}", to("secret-of-a-client")))
	settled(t, store, "1", driver.StateDone)
	store.sampled.Wait()
	stop()
	for _, tt := range []struct {
		filter driver.SeriesFilter
		want   map[string]int64
	}{
		{driver.SeriesFilter{Of: driver.FigureDeliveries}, map[string]int64{"ok": 1, "duplicate": 1, "refused": 2}},
		{driver.SeriesFilter{Of: driver.FigureDeliveries, Name: "gh"}, map[string]int64{"ok": 1, "duplicate": 1, "refused": 1}},
		{driver.SeriesFilter{Of: driver.FigureRefusals}, map[string]int64{"signature_missing": 1, "unknown_source": 1}},
		{driver.SeriesFilter{Of: driver.FigureAttempts, Name: "app"}, map[string]int64{"retry": 1, "sent": 1}},
		{driver.SeriesFilter{Of: driver.FigureTypes, Name: "gh", Resolution: driver.ByHour}, map[string]int64{"push": 1}},
		{driver.SeriesFilter{Of: driver.FigureDuplicates, Name: "gh"}, map[string]int64{"": 1}},
		{driver.SeriesFilter{Of: driver.FigureBacklog, Label: driver.BacklogEvents}, map[string]int64{"events": 0}},
	} {
		if got := sums(t, store, tt.filter); !cmp.Equal(tt.want, got) {
			t.Errorf("%+v: %v, want %v", tt.filter, got, tt.want)
		}
	}
}

// sums returns the sums of the last day by label. It fails unless the durations of deliveries and
// attempts are known.
func sums(t *testing.T, store driver.Store, f driver.SeriesFilter) map[string]int64 {
	t.Helper()
	f.Since, f.Until, f.Limit = time.Now().Add(-24*time.Hour), time.Now().Add(time.Hour), 1000
	points, err := store.Series(t.Context(), &f)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]int64{}
	for _, p := range points {
		all[p.Label] += p.N
		var known int64
		for _, n := range p.Buckets {
			known += n
		}
		if f.Of.Bounds() != nil && known != p.N {
			t.Errorf("%+v: the durations of %d are known, want %d", f, known, p.N)
		}
	}
	return all
}

// TestTypesOfHandledEventsAreCounted counts events that Inline handlers and ClaimTx claim, once.
func TestTypesOfHandledEventsAreCounted(t *testing.T) {
	t.Parallel()
	l := onSQLite(t)
	in := inbox(t, l, handling(effectOf(l)), inline)
	for range 2 {
		deliver(in, delivery("1", "{}"))
		receiveInTx(t, l, in, delivery("2", "{}"), nil)
	}
	runEnded(t, in)
	by := driver.SeriesFilter{Of: driver.FigureTypes, Name: "gh", Resolution: driver.ByHour}
	if got, want := sums(t, l.db, by), (map[string]int64{"push": 2}); !cmp.Equal(want, got) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestRefusedRequestsAreKept refuses requests of several kinds: the store has them, without anything
// that may be a secret.
func TestRefusedRequestsAreKept(t *testing.T) {
	t.Parallel()
	const canary = "canary-of-a-secret"
	store, log := rig.OpenSQLite(t), &rig.Log{}
	in := newEngine(t, store, func(c *hookonce.Config) {
		withRefusers(c)
		c.Sources = append(c.Sources, hookonce.Source{Name: "token", Provider: provider.Figma, Secrets: hookonce.StaticSecrets(secret), AckTimeout: 30 * time.Second, Event: provider.EventRules{ID: "body:id"}})
		c.Logger = log.Logger()
	})
	run(t, in)
	long := strings.Repeat("x", 5000)
	refuse := func(path, body string, change func(*http.Request)) string {
		r := delivery("1", body, forge)
		r.URL.Path, r.URL.RawQuery = path, "key="+canary
		r.Header.Set("Authorization", canary)
		r.Header.Set("X-Custom", canary)
		r.Header.Set("User-Agent", "sender/1")
		change(r)
		w := answered(in, r)
		var p struct{ Instance string }
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
			t.Fatal(err)
		}
		return strings.TrimPrefix(p.Instance, "urn:hookonce:error:")
	}
	same := func(*http.Request) {}
	wrong := refuse("/webhooks/stripe", long, func(r *http.Request) { r.Header.Set("Stripe-Signature", "t=1,v1=00") })
	unread := refuse("/webhooks/gh", long, same)
	unknown := refuse("/webhooks/"+canary, "{}", same)
	token := refuse("/webhooks/token", `{"passcode":"`+canary+`"}`, same)
	deliver(in, delivery("1", "{}")) // not refused
	in.Drain()
	unavailable := refuse("/webhooks/gh", `{}`, func(r *http.Request) {
		h := delivery("2", "{}").Header
		h.Set("User-Agent", "sender/1")
		h.Set("X-Custom", canary)
		r.Header = h
	})

	var all []driver.RefusedRequest
	eventually.True(t, "the refused requests are stored", func() bool {
		page, err := store.Refused(t.Context(), &driver.RefusedFilter{})
		if err != nil {
			t.Fatal(err)
		}
		all = page.Requests
		return len(all) == 5
	})
	host, _ := os.Hostname()
	for i := range all {
		got := &all[i]
		if time.Since(got.At) > time.Hour || got.Method != http.MethodPost || got.Remote != remote || got.Gateway != host {
			t.Errorf("%+v, want the time, the method, the address and the host", got)
		}
		if text := fmt.Sprintf("%s %s %+v", got.Headers, got.Body, got); strings.Contains(text, canary) {
			t.Errorf("a secret is stored: %s", text)
		}
		if !strings.Contains(string(got.Headers), `"User-Agent":["sender/1"]`) || !strings.Contains(string(got.Headers), `"X-Custom":["<18 bytes>"]`) {
			t.Errorf("the headers are %s", got.Headers)
		}
		if got.ErrorID == wrong && !strings.Contains(string(got.Headers), `"Stripe-Signature":["t=1,v1=00"]`) {
			t.Errorf("the signature is missing in %s", got.Headers)
		}
		type row struct {
			source, reason string
			status         int
			body           string
			size           int64
		}
		want := map[string]row{
			wrong:       {"stripe", "signature_wrong", 401, long[:driver.MaxRefusedBody], 5000},
			unread:      {"gh", "too_large", 413, "", -1},
			unknown:     {"", "unknown_source", 404, "", -1},
			token:       {"token", "signature_wrong", 401, "", 33},
			unavailable: {"gh", "unavailable", 503, "", -1},
		}[got.ErrorID]
		if is := (row{got.Source, got.Reason, got.Status, string(got.Body), got.BodySize}); is != want {
			t.Errorf("%s: %.200v, want %.200v", got.ErrorID, is, want)
		}
	}
}

// TestAFloodOfRefusals: refusals that do not fit are dropped and counted, and other sources have their place.
func TestAFloodOfRefusals(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	in := newEngine(t, store, func(c *hookonce.Config) {
		withRefusers(c)
		c.UnverifiedRate = hookonce.Rate{Count: 10_000, Per: time.Second}
	})
	for range 1000 {
		deliver(in, delivery("1", "{}", unsign))
	}
	deliver(in, delivery("1", "{}", to("stripe")))
	runEnded(t, in)
	for source, want := range map[string]int{"gh": 64, "stripe": 1} {
		page, err := store.Refused(t.Context(), &driver.RefusedFilter{Source: source, Limit: driver.MaxLimit})
		if err != nil || len(page.Requests) != want {
			t.Errorf("%s: %d requests with the error %v, want %d", source, len(page.Requests), err, want)
		}
	}
	want := map[string]int64{"signature_missing": 1001}
	if got := sums(t, store, driver.SeriesFilter{Of: driver.FigureRefusals}); !cmp.Equal(want, got) {
		t.Errorf("%v, want %v", got, want)
	}
}
